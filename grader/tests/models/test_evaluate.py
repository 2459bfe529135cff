"""`headway evaluate` inside: its questions, the answers of a model, what is kept, intervals, two models compared, and its page in a browser."""

from __future__ import annotations

import ast
import json
import math
import operator
import re
import zlib
from collections import Counter
from dataclasses import replace
from html import escape

import pytest
import torch
from browser import Browser, needs_chromium
from grader.chapters.ch24_evaluation.evaluation import answering, report_page, results, subjects
from grader.chapters.ch24_evaluation.evaluation.answering import KINDS, Answers, ask
from grader.chapters.ch24_evaluation.evaluation.questions import SUBJECTS, Question, load_questions
from grader.chapters.ch24_evaluation.evaluation.results import ALL, BETTER, FEW, UNCLEAR, WORSE, Result
from grader.chapters.ch24_evaluation.evaluation.subjects import (
    CHAPTER,
    Asked,
    find_model,
    find_models,
)
from grader.chapters.stories.corpus import story
from grader.models import checkpoint
from grader.models.checkpoint import CheckpointProblem
from grader.models.design import build_model
from grader.models.own_parts import OwnParts
from grader.models.tokenizers import WordModelTokenizer, split_words
from grader.models.training.corpora import VOCABULARY_STORIES
from grader.teaching.walks.parts import MixedChapters
from own_models import GPT, TRANSLATOR
from page_layout import misfits
from torch.nn import functional as F

QUESTIONS = load_questions()
OF_SUBJECT = {subject: [one for one in QUESTIONS if one.subject == subject] for subject in SUBJECTS}


# ---- the questions


def test_there_are_about_300_and_none_twice():
    assert len(QUESTIONS) == 308 and [one.key for one in QUESTIONS] == sorted({one.key for one in QUESTIONS})
    assert len({one.text + one.choices[one.right] for one in QUESTIONS}) == len({(one.text, frozenset(one.choices)) for one in QUESTIONS}) == len(QUESTIONS)


@pytest.mark.parametrize("subject", SUBJECTS)
def test_neither_the_place_nor_the_length_gives_the_answer_away(subject):
    asked = OF_SUBJECT[subject]
    places = Counter(one.right for one in asked)
    assert len({len(one.choices) for one in asked}) == 1 and set(places) == set(range(len(asked[0].choices)))
    assert max(places.values()) - min(places.values()) <= 1
    sizes = [[len(choice.encode()) for choice in one.choices] for one in asked]
    for extreme in (min, max):  # the one of this length is chosen; of several, any
        found = sum((size[one.right] == extreme(size)) / size.count(extreme(size)) for one, size in zip(asked, sizes)) / len(asked)
        assert abs(found - asked[0].guess) < 0.06, extreme
    right = sum(size[one.right] for one, size in zip(asked, sizes)) / len(asked)
    wrong = sum((sum(size) - size[one.right]) / (len(size) - 1) for one, size in zip(asked, sizes)) / len(asked)
    assert abs(right / wrong - 1) < 0.03


@pytest.mark.parametrize("subject", SUBJECTS)
def test_each_question_is_a_readable_text_with_different_choices_and_a_source(subject):
    asked = OF_SUBJECT[subject]
    for one in asked:
        for text in (one.text, one.group, one.source, *one.choices):
            assert text and text == " ".join(text.split()) and text.isprintable() and text.isascii(), text
        assert len({choice.lower() for choice in one.choices}) == len(one.choices) and type(one.right) is int
        assert one.text.endswith("?") is (subject in ("facts", "arithmetic")), one.text
    groups = Counter(one.group for one in asked)
    assert len(groups) >= 20 and max(groups.values()) <= 4
    assert not set(groups) & {one.group for one in QUESTIONS if one.subject != subject}


OPERATIONS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod}


def value_of(formula: ast.expr) -> int:
    if isinstance(formula, ast.Constant):
        return formula.value
    if isinstance(formula, ast.BinOp):
        return OPERATIONS[type(formula.op)](value_of(formula.left), value_of(formula.right))
    assert isinstance(formula, ast.Call) and formula.func.id in ("max", "min")
    return {"max": max, "min": min}[formula.func.id](map(value_of, formula.args))


def test_the_right_choices_of_arithmetic_are_what_the_formulas_give():
    for one in OF_SUBJECT["arithmetic"]:
        right = value_of(ast.parse(one.source, mode="eval").body)
        assert [choice == str(right) for choice in one.choices].index(True) == one.right and one.choices.count(str(right)) == 1, one.text
        words = {"2": "twice half", "10": "", "60": "hours", "1": "after"}  # numbers that the text says with a word
        for number in re.findall(r"\d+", one.source):
            assert number in re.findall(r"\d+", one.text) or any(word in one.text for word in words[number].split()) or "all around" in one.text, one.text


def test_the_stories_model_knows_all_words_of_the_stories():
    known = {word.lower() for number in range(VOCABULARY_STORIES) for word in split_words(story(0, number))}
    unknown = {word for one in OF_SUBJECT["stories"] for text in (one.text, *one.choices) for word in split_words(text) if word.lower() not in known}
    assert unknown == set()


def test_the_first_questions_are_a_sample_of_all_subjects():
    assert set(SUBJECTS) == {one.subject for one in QUESTIONS[:20]}
    assert load_questions(["grammar"]) == [one for one in QUESTIONS if one.subject == "grammar"]


# ---- models whose answers are known


class Bytes:
    """A tokenizer of single bytes."""

    def encode(self, text: str) -> list[int]:
        return list(text.encode())


class Remembers(torch.nn.Module):
    """After a text that it remembers it expects the next byte; elsewhere every byte is as likely. It counts its passes."""

    def __init__(self, texts=()) -> None:
        super().__init__()
        texts = list(texts)
        self.table, self.passes = {text[:end]: text[end] for text in map(str.encode, texts) for end in range(1, len(text))}, 0
        self.weight = torch.nn.Parameter(torch.tensor([float(hash_of("".join(texts)))]))

    def forward(self, ids):
        self.passes += 1
        logits = torch.zeros(*ids.shape, 256)
        for row, each in zip(logits, ids.tolist()):
            for end in range(1, len(each) + 1):
                if (byte := self.table.get(bytes(each[:end]))) is not None:
                    row[end - 1, byte] = 8.0
        return logits


def knowing(pick, questions=QUESTIONS, name="knowing") -> Asked:
    """A model that takes the choice at the place pick(question)."""
    return Asked(name, Remembers(one.prompt + one.continuations[pick(one)] for one in questions), Bytes())


@pytest.fixture(scope="module")
def parts():
    made = MixedChapters(CHAPTER, ())
    yield made
    made.close()


@pytest.fixture(autouse=True)
def here(monkeypatch, tmp_path):
    monkeypatch.setattr(checkpoint, "CHECKPOINTS", tmp_path / "checkpoints")
    return tmp_path / "checkpoints"


def answered(asked, parts, questions=QUESTIONS, kind="byte") -> Result:
    answers = Answers.of(asked)
    assert ask(asked, parts, questions, answers)
    return Result.of(answers, questions, kind, 0)


def result_of(pick, name="one", questions=QUESTIONS) -> Result:
    return Result(name, list(questions), [pick(one) for one in questions], 0)


def right(one: Question) -> int:
    return one.right


def wrong(one: Question) -> int:
    return (one.right + 1) % len(one.choices)


def first(one: Question) -> int:
    return 0


def test_a_model_that_knows_is_right_and_one_that_knows_nothing_guesses(parts):
    some = QUESTIONS[:40]
    assert answered(knowing(right, some), parts, some).right == [1.0] * 40
    assert answered(knowing(wrong, some), parts, some).right == [0.0] * 40
    assert answered(Asked("empty", Remembers(), Bytes()), parts, some).chosen == [0] * 40  # equal scores: the first choice


def test_one_pass_gives_the_scores_of_all_kinds(parts):
    asked, one = knowing(right), OF_SUBJECT["facts"][0]
    found = answering.score(asked, parts, one)
    assert asked.model.passes == 1
    for kind in KINDS:
        assert found[kind] == pytest.approx(parts.score_choices(asked.model, Bytes(), one.prompt, one.continuations, kind))
    assert found["sum"] != found["byte"]
    other = answering.score(asked, parts, OF_SUBJECT["facts"][1])
    assert asked.model.passes == 2 + len(KINDS) and other != found


def test_answers_are_kept_and_an_interrupted_run_goes_on(parts, here):
    some, asked = QUESTIONS[:30], knowing(right)
    answers, left = Answers.of(asked), iter([False] * 12)
    assert not ask(asked, parts, some, answers, interrupted=lambda: next(left, True))
    assert asked.model.passes == 12 and len(Answers.of(asked).by_key) == 12
    whole = answered(asked, parts, some)
    assert asked.model.passes == 30 and whole.right == [1.0] * 30
    assert answered(knowing(right), parts, some) == whole and len(list((here / "evaluation" / "answers").iterdir())) == 1
    with torch.no_grad():
        asked.model.weight.add_(1)  # a model that was trained further
    answered(asked, parts, some)
    assert asked.model.passes == 60 and len(list((here / "evaluation" / "answers").iterdir())) == 2


@pytest.mark.parametrize("content", ["{", "[]", '{"format": 1}', '{"answers": []}', '{"answers": {"a": 1}}', "\x00", "[" * 100_000])
def test_a_damaged_file_is_a_sentence_and_all_is_answered_again(parts, content):
    some, asked = QUESTIONS[:3], knowing(right)
    path = Answers.of(asked).path
    path.parent.mkdir(parents=True)
    path.write_text(content)
    assert "is damaged, so knowing answers all questions again" in Answers.of(asked).note
    assert answered(asked, parts, some).right == [1.0] * 3 and Answers.of(asked).note is None


@pytest.mark.parametrize("scores", [{}, {kind: [0.0] for kind in KINDS}, {kind: ["a"] * 4 for kind in KINDS}, {kind: [math.nan] * 4 for kind in KINDS}, {"byte": [0.0] * 4}])
def test_a_wrong_answer_in_the_file_is_asked_again(parts, scores):
    one, asked = OF_SUBJECT["facts"][0], knowing(right)
    answers = Answers.of(asked)
    answers.by_key[one.key] = scores
    answers.save()
    assert not Answers.of(asked).has(one)
    assert answered(asked, parts, [one]).right == [1.0]
    stored = json.loads(answers.path.read_text())["answers"][one.key]
    assert set(stored) == set(KINDS) and len(stored["sum"]) == 4


def test_a_model_without_numbers_is_a_sentence(parts):
    asked = knowing(right)
    asked.model.forward = lambda ids: torch.full((*ids.shape, 256), math.nan)
    with pytest.raises(CheckpointProblem, match="knowing gives probabilities that are not numbers, so its training has failed"):
        answered(asked, parts, QUESTIONS[:2])


def test_a_place_that_cannot_be_written_is_a_sentence(parts, here):
    here.mkdir()
    (here / "evaluation").write_text("a file where the folder should be")
    with pytest.raises(CheckpointProblem, match="could not write .*evaluation/answers/.*json: "):
        answered(knowing(right), parts, QUESTIONS[:1])


# ---- what the answers say


def verdicts(parts, result) -> dict[str, str]:
    return {row.subject: row.verdict for row in results.rows(parts, result)}


def test_a_model_that_guesses_is_told_from_one_that_does_not(parts):
    every = [ALL, *SUBJECTS]
    assert verdicts(parts, result_of(first)) == dict.fromkeys(every, UNCLEAR)
    assert verdicts(parts, result_of(right)) == dict.fromkeys(every, BETTER)
    assert verdicts(parts, result_of(wrong)) == dict.fromkeys(every, WORSE)
    draw = torch.Generator().manual_seed(5)
    for _ in range(5):
        guessed = result_of(lambda one: int(torch.randint(len(one.choices), (), generator=draw)))
        assert list(verdicts(parts, guessed).values()).count(UNCLEAR) >= 4
    half = result_of(lambda one: one.right if hash(one.key[:1]) and int(one.key, 16) % 10 < 7 else wrong(one))
    assert verdicts(parts, half)["facts"] == BETTER


def test_the_numbers_of_a_row_are_those_of_its_answers(parts):
    asked = OF_SUBJECT["facts"] + OF_SUBJECT["grammar"]
    chosen = [one.right if place % 3 else wrong(one) for place, one in enumerate(asked)]
    all_row, facts, _ = results.rows(parts, Result("one", asked, chosen, 5))
    assert facts.share == pytest.approx(sum(place % 3 > 0 for place in range(104)) / 104) and facts.guess == 0.25 and facts.count == 104
    assert all_row.guess == pytest.approx((104 * 0.25 + 72 * 0.5) / 176)
    right_ones, groups = [float(place % 3 > 0) for place in range(104)], [one.group for one in OF_SUBJECT["facts"]]
    generator = torch.Generator().manual_seed(0)
    assert facts.interval == parts.bootstrap_interval(right_ones, generator=generator, clusters=groups)
    assert facts.cells == ("one", "facts", "104", "66 %", f"{100 * facts.interval[0]:.0f} to {100 * facts.interval[1]:.0f} %", "25 %", "better")


def test_an_interval_knows_that_questions_of_a_group_go_together(parts):
    by_group = [float(hash_of(one.group) % 2) for one in OF_SUBJECT["facts"]]
    groups = [one.group for one in OF_SUBJECT["facts"]]
    wide, narrow = (results.interval_of(parts, by_group, names) for names in (groups, [one.key for one in OF_SUBJECT["facts"]]))
    assert wide[1] - wide[0] > 1.3 * (narrow[1] - narrow[0])


def hash_of(text: str) -> int:
    return zlib.crc32(text.encode()) % 100_000


def test_all_right_is_no_proof_of_certainty(parts):
    low, high = results.interval_of(parts, [1.0] * 40, [str(place // 2) for place in range(40)])
    assert high == 1.0 and low == pytest.approx(0.025 ** (1 / 20))
    assert results.interval_of(parts, [0.0] * 40, [str(place // 2) for place in range(40)]) == pytest.approx((0.0, 1 - 0.025 ** (1 / 20)))
    few = [one for one in OF_SUBJECT["grammar"] if one.group in sorted({one.group for one in OF_SUBJECT["grammar"]})[:9]]
    [row] = results.rows(parts, result_of(right, questions=few))
    assert row.verdict == FEW and row.interval is None and row.cells[4] == "-"


def test_the_sentences_name_the_subjects_and_what_was_left_out(parts):
    def pick(one):
        return one.right if one.subject in ("facts", "stories") else 0

    result = replace(result_of(pick), left_out=1)
    shown = results.rows(parts, result)
    assert list(results.sentences(result, shown)) == [
        "one does better than a model that guesses: all questions, facts, stories.",
        "These questions cannot tell one from a model that guesses: arithmetic, grammar.",
        "one cannot read 1 question, because of unknown words or their length; they are left out.",
    ]


# ---- two models compared


def test_equal_models_and_models_that_differ_by_chance_cannot_be_told_apart(parts):
    answer, _, differ, needed = results.compare(parts, result_of(right), result_of(right, "two"))
    assert answer == "These questions cannot tell whether one or two is better."
    assert differ.startswith("They differ at 0 questions: ") and differ.endswith("p is 1.") and "5.0 percentage points" in needed


def test_the_better_model_is_named_whatever_the_order(parts):
    good, bad = result_of(lambda one: one.right if int(one.key, 16) % 10 < 8 else wrong(one), "good"), result_of(first, "bad")
    for pair in ((good, bad), (bad, good)):
        answer, shares, differ, needed = results.compare(parts, *pair)
        assert answer == "good is better than bad at these questions." and differ.endswith("p is less than 0.001.")
        assert f"{pair[0].model} is right in {100 * sum(pair[0].right) / 308:.0f} %" in shares
        only = [sum(x > y for x, y in zip(a.right, b.right)) for a, b in (pair, pair[::-1])]
        assert f"They differ at {sum(only)} questions: {only[0]} times only {pair[0].model} is right, {only[1]} times only" in differ
        difference = abs(sum(good.right) - sum(bad.right)) / 308
        number = parts.questions_needed(sum(bad.right) / 308, difference)
        assert f"separate questions, {number:,} for each" in needed and f"{100 * difference:.1f} percentage points" in needed


def test_the_questions_of_one_group_are_one_piece_of_evidence(parts):
    """Nine questions that one model alone gets right are much; if they are of one group, they are a single difference."""
    base = QUESTIONS[0]
    apart = [replace(base, text=f"{number}?", group=str(number)) for number in range(9)]
    together = [replace(one, group="same") for one in apart]
    for asked, says in ((apart, "one is better than two"), (together, "cannot tell")):
        assert says in results.compare(parts, result_of(right, "one", asked), result_of(wrong, "two", asked))[0]


def test_only_questions_that_both_can_read_are_compared(parts):
    one, two = result_of(right, "one", QUESTIONS[:200]), result_of(wrong, "two", QUESTIONS[150:])
    assert results.compare(parts, one, two)[1].startswith("On 50 questions that both can read, one is right in 100 %")
    assert results.compare(parts, one, result_of(wrong, "two", QUESTIONS[200:])) == ["There is no question that both models can read, so they cannot be compared."]


# ---- finding models


@pytest.fixture
def own():
    """The reference's parts for a GPT with a tokenizer of words."""
    names = tuple(dict.fromkeys((*CHAPTER, *subjects.model_exercises(GPT), *subjects.tokenizer_exercises("words"), *subjects.adapters.ADAPTER_EXERCISES)))
    made = MixedChapters(names, ())
    yield OwnParts(made)
    made.close()


def write_stories_model(own, here, name="tiny", corpus="stories", design=GPT):
    torch.manual_seed(3)
    tokenizer = WordModelTokenizer.of_texts(own.parts, [story(0, number) for number in range(400)])
    model = build_model(own.parts, design, tokenizer.vocab_size)
    checkpoint.save(here / name, model, tokenizer, design, {"corpus": {"kind": corpus}})
    return model


def test_a_checkpoint_reads_what_it_knows_and_begins_as_in_its_training(own, here):
    write_stories_model(own, here)
    asked = find_model("tiny").open(own)
    assert asked.encode("Mia")[:-1] == asked.tokenizer.start_ids != []
    readable = [one for one in QUESTIONS if asked.can_read(one)]
    for one in QUESTIONS:
        texts = [one.prompt + more for more in one.continuations]
        known, short = (all(map(of, texts)) for of in (lambda text: not asked.tokenizer.unknown_words(text), lambda text: len(asked.encode(text)) <= GPT.max_len))
        assert (one in readable) is (known and short)
    assert 60 < len(readable) < 80 and {one.subject for one in readable} == {"grammar", "stories"}
    asked.longest = 12
    assert 0 < sum(map(asked.can_read, QUESTIONS)) < len(readable)
    result = answered(asked, own.parts, readable)
    assert verdicts(own.parts, result)["stories"] == UNCLEAR  # its weights are random
    write_stories_model(own, here, "text", "text")
    assert find_model("text").open(own).start_ids == ()


def test_the_score_of_a_checkpoint_is_that_of_its_whole_text(own, here):
    model = write_stories_model(own, here).eval()
    asked, one = find_model("tiny").open(own), OF_SUBJECT["stories"][0]
    scores = answering.score(asked, own.parts, one)["sum"]
    for continuation, found in zip(one.continuations, scores):
        asked_ids, ids = asked.encode(one.prompt), torch.tensor([asked.encode(one.prompt + continuation)])
        with torch.no_grad():
            log_probs = F.log_softmax(model(ids)[0], -1)[0]
        start = len(asked_ids)
        assert found == pytest.approx(sum(float(log_probs[place - 1, ids[0, place]]) for place in range(start, ids.size(1))), abs=1e-4)


def test_adapters_change_the_model_that_they_belong_to(own, here):
    write_stories_model(own, here)
    plain = find_model("tiny").open(own)
    added = subjects.adapters.add_adapters(own.parts, find_model("tiny").open(own).model)
    values = {name: torch.randn(parameter.shape) for name, parameter in added.items()}
    record = {
        "kind": "stories", "base": "tiny", "task": "format", "seed": 0, "minutes": 1.0, "answer_steps": 1, "steps": 1, "losses": [],
        "rewards": [], "kls": [], "seconds": {}, "evaluations": [],
    }  # fmt: skip
    subjects.adapters.save(here / "tuned", subjects.adapters.Saved("tuned", record, values, {}, {}))
    tuned = find_model("tuned").open(own)
    assert tuned.name == "tuned" and tuned.fingerprint != plain.fingerprint
    one = OF_SUBJECT["stories"][0]
    assert answering.score(tuned, own.parts, one) != answering.score(plain, own.parts, one)
    assert any("such as tuned" in note for note in find_models([])[1])


def test_names_that_no_model_has_are_sentences(own, here, monkeypatch):
    monkeypatch.setattr(subjects.opening, "PACKAGE", "no_such_package")
    with pytest.raises(CheckpointProblem, match="there is no model to ask; `headway train` makes one"):
        find_models([])
    write_stories_model(own, here)
    with pytest.raises(CheckpointProblem, match="there is no model 'tinyy'; did you mean tiny?"):
        find_model("tinyy")
    with pytest.raises(CheckpointProblem, match="there is no model 'qqq'; you have smollm2, tiny"):
        find_model("qqq")
    with pytest.raises(subjects.UserProblem, match="the weights of SmolLM2 are not installed"):
        find_model("SmolLM2")
    with pytest.raises(subjects.UserProblem, match="there is no file or folder none.gguf"):
        find_model("none.gguf")
    (here / "empty").mkdir()
    with pytest.raises(CheckpointProblem, match="empty is not a checkpoint"):
        find_model("empty")


def test_without_a_name_all_usable_models_are_asked(own, here):
    write_stories_model(own, here, "good")
    write_stories_model(own, here, "bad")
    (here / "bad" / checkpoint.RECORD).write_text("{")
    tokenizer = WordModelTokenizer.of_texts(own.parts, ["a b"])
    checkpoint.save(here / "translator", torch.nn.Linear(1, 1), tokenizer, TRANSLATOR, {})
    found, notes = find_models([])
    assert "good" in [one.name for one in found] and not {"bad", "translator"} & {one.name for one in found}
    assert any("bad/checkpoint.json is damaged" in note for note in notes)
    assert any("translator is a translator, which does not go on with a text" in note for note in notes)
    for number in range(subjects.MOST_MODELS):
        write_stories_model(own, here, f"more-{number}")
    assert "Models that you name are asked too, such as " in " ".join(find_models([])[1])


# ---- the page


@pytest.fixture
def page_text(parts):
    made = [result_of(lambda one: one.right if int(one.key, 16) % 10 < 8 else wrong(one), "a<b"), result_of(first, "two")]
    shown = [row for result in made for row in results.rows(parts, result)]
    return report_page.draw(made, shown, results.compare(parts, *made), ["Made by hand."]), made, shown


def test_the_page_has_the_table_and_each_wrong_answer(page_text):
    page, made, shown = page_text
    for row in shown:
        assert "".join(f"<td>{escape(cell)}</td>" for cell in row.cells) in page
    assert page.count("class=\"bar\"") == len(shown) == 10 and "a&lt;b is better than two at these questions." in page
    wrong_ones = [one for one, place in zip(made[0].questions, made[0].chosen) if place != one.right]
    assert f"a&lt;b: {len(wrong_ones)} of 308 questions" in page and "http" not in page
    for one in wrong_ones:
        assert f"<td>{escape(one.text)}</td><td>{escape(one.choices[wrong(one)])}</td><td>{escape(one.choices[one.right])}</td>" in page


@needs_chromium
def test_the_page_opens_without_errors_in_light_and_dark_and_fits(page_text, tmp_path):
    (tmp_path / "report.html").write_text(page_text[0], encoding="utf-8")
    with Browser(tmp_path) as browser:
        bars = set()
        for dark in (False, True):
            page = browser.open(tmp_path / "report.html", dark=dark)
            assert page.errors == [] and [each for each in page.sent.values() if not each.startswith("file:")] == []
            assert misfits(page) == []
            bars.add(page.js("getComputedStyle(document.querySelector('.bar b')).backgroundColor"))
        assert len(bars) == 2, "the bars are lighter on a dark page"
