"""`headway reason` inside: its sums, pass@k, resuming, damaged files, what it concludes, and its page in a browser."""

from __future__ import annotations

import itertools
import random
from dataclasses import asdict, replace
from html import escape
from itertools import islice

import pytest
import torch
from browser import Browser, needs_chromium
from grader.chapters.ch26_reasoning.reasoning import (
    adder,
    passing,
    reason_file,
    reason_progress,
    reason_report,
    reason_run,
    rewarding,
    sums,
)
from grader.chapters.ch26_reasoning.reasoning.passing import DRAWS, Evaluation
from grader.chapters.ch26_reasoning.reasoning.reason_file import ReasonProblem
from grader.chapters.ch26_reasoning.reasoning.reason_progress import Progress
from grader.chapters.ch26_reasoning.reasoning.sums import Sum
from grader.chapters.run_file import OPTIMIZER
from grader.console.output import hide_progress
from grader.models import checkpoint
from grader.models.checkpoint import CheckpointProblem
from grader.models.own_parts import CodeProblem
from own_models import solved
from page_layout import misfits
from safetensors.torch import save_file
from trainings import Silent


class Runs:
    """Begins and resumes small runs: sums of one digit, so that some answers are right after a few steps."""

    def __init__(self, monkeypatch, trainings) -> None:
        self.chapters, self._made = trainings.chapters, []
        monkeypatch.setattr(reason_run, "find_own_parts", trainings._own)
        for module in (sums, adder, passing, rewarding):
            monkeypatch.setattr(module, "NEW_DIGITS", 1, raising=False)
        changed = {
            sums: {"DIGITS": 1}, adder: {"WIDTH": 16, "BATCH_ROWS": 16}, rewarding: {"QUESTIONS": 4},
            passing: {"MOST_QUESTIONS": 9}, reason_progress: {"MOST_QUESTIONS": 9},
            reason_run: {"ANSWER_STEPS": 60, "REWARD_STEPS": 6, "CHECK_STEPS": 20},
        }  # fmt: skip
        for module, values in changed.items():
            for name, value in values.items():
                monkeypatch.setattr(module, name, value)

    def begin(self, name: str | None = "one", seed: int = 0) -> reason_run.Run:
        self._made.append(reason_run.begin(name, seed, None, hide_progress))
        return self._made[-1]

    def resume(self, name: str | None = "one") -> reason_run.Run:
        self._made.append(reason_run.resume(name, hide_progress))
        return self._made[-1]

    def finished(self, run: reason_run.Run) -> reason_run.Run:
        assert reason_run.run_to_end(run, Silent())
        return run

    def close(self) -> None:
        for run in self._made:
            run.close()


@pytest.fixture
def runs(monkeypatch, trainings):
    made = Runs(monkeypatch, trainings)
    yield made
    made.close()


# ---- sums and pass@k


def test_a_scratchpad_adds_place_by_place_with_carries():
    assert Sum(57, 68, 2).answer(True) == "78055612>125." and Sum(57, 68, 2).answer(False) == ">125."
    draw = random.Random(0)
    for _ in range(200):
        digits = draw.randint(1, 4)
        a, b = (draw.randrange(10 ** (digits - 1), 10**digits) for _ in range(2))
        one, carry, result = Sum(a, b, digits), 0, ""
        for place in range(digits):
            x, y, into, digit = map(int, one.scratchpad[4 * place : 4 * place + 4])
            assert (x, y, into) == (a // 10**place % 10, b // 10**place % 10, carry)
            carry, result = divmod(x + y + into, 10)[0], f"{digit}{result}"
        assert int(f"{carry}{result}") == a + b
        assert sums.decode(sums.encode(one.answer(True))) == one.answer(True)
        assert len(sums.encode(one.answer(True))) <= sums.USUAL_TOKENS < sums.MOST_TOKENS


def test_an_answer_is_right_only_if_it_ends_and_its_result_is_the_sum(runs):
    parts, one = runs.begin().own.parts, Sum(57, 68, 2)
    for text, ended, right in (
        ("78055612>125", True, 1.0), (">125", True, 1.0), (">125", False, 0.0), ("125", True, 0.0), (">126", True, 0.0),
        ("125>", True, 0.0), ("", True, 0.0), (">12>125", True, 1.0),
    ):  # fmt: skip
        assert sums.grade(parts, one, text, ended) == right, text


def test_no_sum_is_trained_on_and_tested(runs):
    parts = runs.begin().own.parts
    held_out = {one.question for one in islice(sums.sums(parts, "a", 2, held_out=True), 300)}
    trained = {one.question for seed in "bc" for one in islice(sums.sums(parts, seed, 2), 3000)}
    assert len(held_out) > 100 and len(trained) > 1000 and not held_out & trained


def test_pass_at_k_is_the_mean_over_all_ways_to_choose_k_answers():
    for count, right in ((6, 0), (6, 1), (6, 4), (6, 6), (5, 2)):
        answers = [True] * right + [False] * (count - right)
        for k in range(1, count + 1):
            chosen = [any(some) for some in itertools.combinations(answers, k)]
            assert passing.pass_at(k, right, count) == pytest.approx(sum(chosen) / len(chosen))


# ---- rewards


def test_without_a_difference_in_rewards_nothing_changes(runs, monkeypatch):
    run = runs.begin()
    one, start = run.models["start"], adder.new_adder(run.own.parts, 0)
    before = [value.clone() for value in one.adder.model.parameters()]
    monkeypatch.setattr(adder, "grade", lambda *answer: 1.0)
    outcome = rewarding.step_on_rewards(one.adder, start, one.optimizer, rewarding.PLAIN, 0, 0)
    assert outcome.reward == 1.0 and outcome.used == 0.0
    assert all(torch.equal(*pair) for pair in zip(before, one.adder.model.parameters()))


@pytest.mark.parametrize("recipe", rewarding.RECIPES.values(), ids=rewarding.RECIPES)
def test_rewards_make_what_they_reward_likelier(runs, monkeypatch, recipe):
    """Right is an answer without a scratchpad."""
    run = runs.begin()
    one, start = run.models["start"], adder.new_adder(run.own.parts, 0)
    monkeypatch.setattr(rewarding, "RATE", 1e-2)
    monkeypatch.setattr(adder, "grade", lambda parts, one, text, ended: float(text.startswith(">")))
    made = [rewarding.step_on_rewards(one.adder, start, one.optimizer, recipe, 0, step).reward for step in range(25)]
    assert sum(made[:5]) / 5 < 0.3 and sum(made[-5:]) / 5 > 0.6


# ---- a run


def without_times(run: reason_run.Run) -> dict:
    return asdict(run.progress) | {"seconds": None}


def stop_at(run: reason_run.Run, answers: int, rewards: int):
    return lambda: len(run.progress.losses) >= answers and run.progress.reward_steps_done >= rewards


def test_a_resumed_run_ends_like_an_uninterrupted_one(runs):
    whole = runs.finished(runs.begin("whole"))
    assert len(whole.progress.losses) == 60 and whole.progress.reward_steps_done == 6 and len(whole.progress.checks) == 3
    rewards = [one.reward for made in whole.progress.outcomes.values() for one in made]
    assert any(rewards), "some answers are right, so rewards have changed the models"
    for number, (answers, steps) in enumerate(((7, 0), (60, 0), (60, 4))):
        name = f"stopped-{number}"
        run = runs.begin(name)
        assert not reason_run.run_to_end(run, Silent(), stop_at(run, answers, steps))
        assert not run.progress.is_finished
        again = runs.finished(runs.resume(name))
        assert without_times(again) == without_times(whole)
        for key, trained in whole.models.items():
            other = again.models[key].adder.model
            assert all(torch.equal(*pair) for pair in zip(trained.adder.model.parameters(), other.parameters())), key


def test_both_recipes_begin_with_the_same_model_and_are_changed(runs):
    run = runs.finished(runs.begin())
    start, *others = ([*each.adder.model.parameters()] for each in run.models.values())
    assert len(others) == 2
    for other in others:
        assert not all(torch.equal(*pair) for pair in zip(start, other))
    assert not all(torch.equal(*pair) for pair in zip(*others))


def test_a_finished_run_keeps_only_its_models_and_another_seed_is_another_run(runs):
    run, other = runs.finished(runs.begin()), runs.finished(runs.begin("other", seed=1))
    assert not any(key.startswith(OPTIMIZER) for key in reason_file.FILES.read("one")[2])
    assert runs.resume().progress.is_finished and run.progress.losses != other.progress.losses
    assert runs.resume(None).name == "other", "the latest"


def test_a_crash_in_the_learners_code_names_the_line_and_the_checkpoint_stays(runs):
    old = "    others = (groups.sum(dim=1, keepdim=True) - groups) / (group_size - 1)"
    crashing = "    raise RuntimeError('no groups')\n" + old
    runs.chapters["ch26_reasoning"] = solved("ch26_reasoning", (old, crashing))
    run = runs.begin()
    assert "leave_one_out_advantages" in run.own.learner
    with pytest.raises(CodeProblem, match=r"your leave_one_out_advantages raised RuntimeError: no groups \(ch26_reasoning.py"):
        reason_run.run_to_end(run, Silent())
    assert runs.resume().progress.start is not None


def test_files_that_cannot_be_used_get_one_sentence(runs):
    with pytest.raises(ReasonProblem, match="there is no run yet; `headway reason` makes one"):
        runs.resume(None)
    run = runs.begin("mine")
    assert not reason_run.run_to_end(run, Silent(), lambda: True)
    file = run.folder / reason_file.FILE
    whole = file.read_bytes()

    def said() -> str:
        with pytest.raises(ReasonProblem) as caught:
            runs.resume("mine")
        return str(caught.value)

    for damaged in (whole[: len(whole) // 2], b"", b"x" * 100):
        file.write_bytes(damaged)
        assert "is damaged" in said() and reason_file.AGAIN in said()
    save_file({"a": torch.zeros(2)}, file)
    assert "was not written by `headway reason`" in said()
    for form, record, sentence in (("9", "{}", "another version"), ("1", "{", "record"), ("1", "{}", "record")):
        save_file({"a": torch.zeros(2)}, file, {"format": form, "record": record})
        assert sentence in said()
    file.write_bytes(whole)
    _, record, tensors = reason_file.FILES.read("mine")
    for changes in ({"start": {"step": 0}}, {"seed": -1}, {"outcomes": {"plain": [[0, 0, 0]], "corrected": []}}):
        reason_file.FILES.save(run.folder, record | changes, tensors)
        assert "mine" in said()
    reason_file.FILES.save(run.folder, record, {key: value.flatten()[:1] for key, value in tensors.items()})
    assert "do not fit your Llama" in said()
    with pytest.raises(ReasonProblem, match="there is no run 'nothing'; you have mine"):
        runs.resume("nothing")
    with pytest.raises(CheckpointProblem, match="there is a checkpoint mine already"):
        runs.begin("mine")


# ---- the time


def progress_of(**changes) -> Progress:
    return replace(Progress(0, 10.0, 1000, 200), **changes)


def made(*right: int, step: int = 0) -> Evaluation:
    return Evaluation(step, list(right), 0.1, 20.0, [])


@pytest.mark.parametrize(("minutes", "seconds_a_question", "questions"), [(8, 0.03, 96), (1, 0.1, 13), (0.05, 1.0, 8)])
def test_the_number_of_questions_fits_into_the_time(minutes, seconds_a_question, questions):
    progress = progress_of(minutes=float(minutes))
    progress.plan_tests(seconds_a_question)
    assert progress.questions == questions
    share = reason_progress.TESTS_SHARE * 60 * minutes
    assert questions == passing.FEWEST_QUESTIONS or reason_progress.TESTS * questions * seconds_a_question <= share


def test_a_phase_ends_with_its_steps_with_its_time_or_when_enough_is_right():
    progress = progress_of(losses=[1.0] * 100)
    progress.seconds["answers"] = 18.0
    assert progress.share_done() == pytest.approx((18 + 0.09) / (0.3 * 600)) and not progress.test_is_due
    assert replace(progress, losses=[1.0] * 1000).test_is_due
    assert replace(progress, checks=[0.0, 0.25]).test_is_due and not replace(progress, checks=[0.25, 0.1]).test_is_due
    progress.seconds["answers"] = 180.0
    assert progress.test_is_due
    progress.start, progress.seconds["tests"] = made(0, 1), 10.0
    assert progress.share_done() == 0.0, "a step at least"
    for outcomes in progress.outcomes.values():
        outcomes += [rewarding.Outcome(0.0, 20.0, 0.0)] * 10
    progress.seconds["rewards"] = 100.0
    left = 600 - 180 - 10 - 8 * 10
    assert progress.share_done() == pytest.approx((100 + 5) / left) and progress.test_is_due


# ---- what it concludes


def test_the_conclusion_says_what_the_tests_show():
    def said(before: Evaluation, after: Evaluation, rewards=(0.0, 0.5)) -> str:
        return " ".join(reason_report.describe_learning(before, after, rewards))

    few, many, none = made(*[4] * 20), made(*[20] * 20), made(*[0] * 20)
    assert "no answer in training was right" in said(none, none, [0.0, 0.0])
    assert "shows no learning" in said(few, few) and "shows no learning" in said(made(0, 4, 4), made(4, 4, 4))
    assert said(many, few).startswith("Rewards made the model worse.")
    new = said(none, many)
    assert new.startswith("Rewards taught something new") and "20 questions that none of 32 answers solved before" in new
    likelier = said(few, many)
    assert likelier.startswith("Rewards made right answers likelier") and "new is not shown" in likelier
    assert "pass@1 went from 12 % to 62 %, and pass@32 from 100 % to 100 %" in likelier
    lost = said(made(*[4] * 40), made(*[20] * 30, *[0] * 10))
    assert "other right answers were lost" in lost and "but miss 10 that were solved before" in lost


def test_a_difference_of_the_recipes_that_may_be_chance_is_called_so():
    progress = progress_of(start=made(0, 0), questions=2, checks=[0.3])
    for name, test in (("corrected", made(5, 6)), ("plain", made(4, 7))):
        progress.tests[name] = [test]
        progress.outcomes[name] = [rewarding.Outcome(0.5, 20.0, 1.0)] * 200
    said = " ".join(reason_report.conclusions(progress))
    assert "this run shows no difference" in said and "The run was short" not in said
    progress.outcomes["corrected"] = progress.outcomes["plain"] = progress.outcomes["plain"][:20]
    assert "The run was short" in " ".join(reason_report.conclusions(progress))


# ---- the page


@needs_chromium
def test_the_page_opens_without_errors_in_light_and_dark_and_fits(runs, tmp_path):
    run = runs.finished(runs.begin("a<b"))
    page_file = tmp_path / reason_report.PAGE_FILE
    page_file.write_text(reason_report.draw_page(run), encoding="utf-8")
    with Browser(tmp_path) as browser:
        grounds = set()
        for dark in (False, True):
            page = browser.open(page_file, dark=dark)
            assert page.errors == [] and [each for each in page.sent.values() if not each.startswith("file:")] == []
            assert page.js("document.querySelectorAll('svg').length") == 6
            assert page.js("document.querySelector('h1').textContent") == "Did rewards teach something new?"
            assert "reason: a<b" in page.js("document.title")
            assert misfits(page) == []
            grounds.add(page.js("getComputedStyle(document.querySelector('svg rect')).fill"))
        assert len(grounds) == 2, "the charts are dark on a dark page"


def test_the_page_has_the_answer_and_the_numbers_of_the_table(runs):
    run = runs.finished(runs.begin())
    page = reason_report.draw_page(run)
    for sentence in reason_report.conclusions(run.progress):
        assert escape(sentence) in page
    for row in reason_report.table_rows(run.progress):
        assert "".join(f"<td>{cell}</td>" for cell in row) in page
    assert all(f"<td>{escape(text)}</td>" in page for text in run.progress.start.samples)
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")


def test_curves_over_many_steps_are_means():
    points = reason_report._means([float(number) for number in range(200)])
    assert len(points) == 50 and points[0] == (2.5, 1.5) and points[-1] == (198.5, 197.5)
    assert reason_report._means([3.0]) == [(1.0, 3.0)]


def test_a_name_is_free_and_the_draws_are_those_of_pass_at_k(runs):
    assert runs.begin(None).name == "reason" and DRAWS == max(passing.ATTEMPTS)
    (checkpoint.CHECKPOINTS / "reason").mkdir(parents=True)
    assert runs.begin(None).name == "reason-2"
