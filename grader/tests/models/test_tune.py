"""Fine-tuning: what is trained and what is not, that what rows share is computed exactly, resuming, and damaged files."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from itertools import islice, product

import pytest
import torch
from grader.chapters import interruptible_run
from grader.chapters.ch17_fine_tuning.tuning import (
    adapters,
    evaluation,
    tasks,
    tuning_progress,
    tuning_run,
    tuning_steps,
)
from grader.chapters.ch17_fine_tuning.tuning import base as tuned
from grader.chapters.ch17_fine_tuning.tuning.evaluation import Evaluation
from grader.chapters.ch17_fine_tuning.tuning.tasks import Question, TuneProblem
from grader.chapters.ch17_fine_tuning.tuning.tuning_progress import ANSWERS_SHARE, Progress
from grader.course.syllabus import EXERCISES
from grader.models.checkpoint import CheckpointProblem
from grader.models.own_parts import CodeProblem
from grader.models.training import training_run
from own_models import solved
from safetensors import safe_open
from safetensors.torch import save_file
from trainings import Silent
from tunings import Tunings, stop_after


@pytest.fixture
def tunings(monkeypatch, trainings):
    """Also a tiny model of the stories, in the checkpoint "stories"."""
    training = trainings.begin("stories", steps=1)
    assert training_run.run(training, Silent())
    made = Tunings(monkeypatch, trainings)
    yield made
    made.close()


@pytest.fixture(params=["published", "stories"])
def place(request, tiny_gguf):
    return tiny_gguf if request.param == "published" else "stories"


def whole_logits(base, ids):
    result = base.model(ids)
    return result[0] if isinstance(result, tuple) else result


def randomised(base) -> dict:
    """Adapters that change the model."""
    made = adapters.add_adapters(base.parts, base.model)
    for name, parameter in made.items():
        torch.nn.init.normal_(parameter, std=0.3 if name.endswith("B") else 0.1)
    return made


def test_what_rows_share_is_read_once_and_gives_the_same_logits_and_gradients(tunings, place):
    base = tunings.open(place)
    made = randomised(base)
    rows = torch.tensor([[5, 6, 7, 8, 9, 10], [5, 6, 7, 20, 21, 22], [5, 6, 7, 20, 9, 11]])
    again = torch.tensor([[5, 6, 7, 8], [5, 9, 7, 8]])
    for ids, shared in ((rows, 3), (rows[:1], 0), (rows[:, 3:], 0), (torch.ones(2, 4, dtype=torch.int64), 3), (again, 1)):
        assert tuned.shared_length(ids) == shared
        weights = torch.randn(len(ids), ids.size(1) - shared, 1)
        found = []
        for logits in (tuned.read_rows(base.reader, ids)[1], whole_logits(base, ids)[:, shared:]):
            base.model.zero_grad()
            (logits.double().log_softmax(-1)[..., 7:9].sum(-1, keepdim=True) * weights).sum().backward()
            found.append((logits, {name: parameter.grad.clone() for name, parameter in made.items()}))
        torch.testing.assert_close(found[0][0], found[1][0], atol=1e-4, rtol=1e-4)
        for name, gradient in found[0][1].items():
            torch.testing.assert_close(gradient, found[1][1][name], atol=1e-3, rtol=1e-3)


def test_drawn_answers_have_their_log_probabilities_and_end_where_the_model_ends_them(tunings, place):
    base = tunings.open(place)
    randomised(base)
    prompts = torch.tensor([[5, 6, 7, 8], [5, 6, 9, 8]])
    drawn = tuned.draw_answers(base, prompts, 16, 24, 3.0, torch.Generator().manual_seed(1))
    assert drawn.ids.shape == drawn.mask.shape == drawn.log_probs.shape and len(drawn.ids) == 32 and any(drawn.ended)
    with torch.no_grad():
        again = tuned.answer_log_probs(base, prompts, 16, drawn.ids)
        rows = torch.cat([prompts.repeat_interleave(16, 0), drawn.ids], 1)
        whole = whole_logits(base, rows)[:, 3:-1].log_softmax(-1).gather(-1, drawn.ids[..., None])[..., 0]
    torch.testing.assert_close(drawn.log_probs, again, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(again, whole, atol=1e-4, rtol=1e-4)
    for ids, mask, ended in zip(drawn.ids.tolist(), drawn.mask.tolist(), drawn.ended):
        length = sum(mask)
        assert mask == [True] * length + [False] * (len(mask) - length)
        assert ended == (base.end_id in ids)
        assert ids.index(base.end_id) == length - 1 if ended else length == len(ids)


def test_only_adapters_change_and_the_loss_is_that_of_the_answers_tokens(tunings, tiny_gguf):
    base, task = tunings.open(tiny_gguf), tasks.TASKS["published"]["format"]
    made = adapters.add_adapters(base.parts, base.model)
    frozen = {name: value.clone() for name, value in base.model.state_dict().items() if name not in made}
    total, count = 0.0, 0
    for question in islice(tasks.questions(task, base.parts, "0 answers 0", held_out=False), tuning_steps.BATCH_ROWS):
        prompt, answer = base.prompt_ids(question.prompt), [*base.answer_ids(question.answer), base.end_id]
        logits = whole_logits(base, torch.tensor([prompt + answer]))[0, len(prompt) - 1 : -1]
        total += torch.nn.functional.cross_entropy(logits, torch.tensor(answer), reduction="sum").item()
        count += len(answer)
    assert tuning_steps.step_on_answers(base, task, tuning_steps.make_optimizer(base, made), 0, 0) == pytest.approx(total / count, rel=1e-4)
    for name, value in frozen.items():
        assert torch.equal(base.model.state_dict()[name], value), name
    assert all(parameter.abs().sum() > 0 for parameter in made.values()), "B began with zeros, so every B has changed"


class Letters:
    """Right is an answer that begins with a lower-case letter."""

    title, most_tokens, prompts, group, rewards_rate = "", 2, 2, 16, 1e-2

    def ask(self, draw: random.Random) -> Question:
        return Question(f"{draw.choice('abcdefgh')}{draw.choice('abcdefgh')}", "a", None)

    def grade(self, parts, question, answer, ended) -> float:
        return float(answer[:1].islower())


def test_rewards_make_right_answers_likelier(tunings, tiny_gguf):
    base, task = tunings.open(tiny_gguf), Letters()
    made = adapters.add_adapters(base.parts, base.model)
    start = {name: parameter.detach().clone() for name, parameter in made.items()}
    optimizer = tuning_steps.make_optimizer(base, made)
    found = [tuning_steps.step_on_rewards(base, task, made, start, optimizer, 0, step, task.prompts) for step in range(20)]
    rewards, kls = zip(*found)
    assert kls[0] == pytest.approx(0, abs=1e-6) and kls[-1] > 0.01
    assert sum(rewards[-5:]) > sum(rewards[:5]) + 1


def test_rewards_that_are_all_equal_change_nothing(tunings, tiny_gguf, monkeypatch):
    monkeypatch.setattr(Letters, "grade", lambda self, *given: 1.0)
    base = tunings.open(tiny_gguf)
    made = randomised(base)
    before = {name: parameter.detach().clone() for name, parameter in made.items()}
    assert tuning_steps.step_on_rewards(base, Letters(), made, before, tuning_steps.make_optimizer(base, made), 0, 0, 2)[0] == 1.0
    assert all(torch.equal(parameter, before[name]) for name, parameter in made.items())


def test_an_interrupted_tuning_goes_on_as_if_nothing_had_happened(tunings, place):
    """Its file has the adapters, and what resuming needs while it is needed."""
    whole, stopped = tunings.finished(tunings.begin(place, "whole")), tunings.begin(place, "stopped")
    for phase, count in (("answers", 0), ("answers", 2), ("rewards", 0), ("rewards", 2)):
        assert not tuning_run.run(stopped, Silent(), stop_after(stopped, phase, count))
        assert stopped.progress.steps_done(phase) == count
        stopped = tunings.resume("stopped")
    names, saved = set(whole.adapters), adapters.read("stopped")
    assert saved.adapters.keys() == saved.start.keys() == names and saved.optimizer
    tunings.finished(stopped)
    for name in ("losses", "rewards", "kls", "evaluations"):
        assert getattr(stopped.progress, name) == getattr(whole.progress, name), name
    for name, parameter in whole.adapters.items():
        assert torch.equal(parameter, stopped.adapters[name]), name
    assert [path.name for path in stopped.folder.iterdir()] == [adapters.FILE]
    with safe_open(stopped.folder / adapters.FILE, "pt") as file:
        assert set(file.keys()) == names and json.loads(file.metadata()["record"])["losses"] == whole.progress.losses
    assert tunings.resume("stopped").progress.is_finished


def test_merged_adapters_answer_as_the_tuned_model_does(tunings, tiny_gguf):
    tuning = tunings.finished(tunings.begin(tiny_gguf))
    with torch.no_grad():
        for parameter in tuning.adapters.values():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    tuning.save()
    ids = torch.arange(3, 12)[None]
    other = tunings.open(tiny_gguf)
    plain = other.model(ids)
    adapters.merge(other.parts, other.model, adapters.read("one"))
    assert not any(isinstance(module, other.parts.LoRALinear) for module in other.model.modules())
    torch.testing.assert_close(other.model(ids), tuning.base.model(ids), atol=1e-4, rtol=1e-4)
    assert (other.model(ids) - plain).abs().max() > 0.1


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, known in tasks.TASKS.items() for name in known])
def test_held_out_questions_are_never_trained_on_and_right_answers_are_right(tunings, tiny_gguf, kind, name):
    base = tunings.open(tiny_gguf if kind == "published" else "stories")
    task = tasks.TASKS[kind][name]
    held_out = list(islice(tasks.questions(task, base.parts, "evaluation", held_out=True), 200))
    trained = list(islice(tasks.questions(task, base.parts, "0 answers 0", held_out=False), 500))
    assert not {one.prompt for one in held_out} & {one.prompt for one in trained}
    assert len({one.prompt for one in held_out}) > 96
    for one in held_out[:40]:
        assert task.grade(base.parts, one, one.answer, True) == 1.0
        assert task.grade(base.parts, one, "", True) == task.grade(base.parts, one, "I do not know.", True) == 0.0


def test_the_form_of_an_answer_is_checked():
    json_task, person = tasks.Json(), Question("", "", {"name": "Anna", "age": 31})
    graded = {
        '{"name": "Anna", "age": 31}': 1, '{\n "age": 31, "name": "Anna"\n}': 1, '{"name": "Anna", "age": "31"}': 0,
        '{"name": "Anna", "age": 32}': 0, '{"name": "Anna"}': 0, 'Here: {"name": "Anna", "age": 31}': 0, "[" * 9000: 0,
    }  # fmt: skip
    assert {text: json_task.grade(None, person, text, True) for text in graded} == graded
    assert json_task.grade(None, person, '{"name": "Anna", "age": 31}', False) == 0
    ending, story = tasks.SevenWords(), Question("", "", None)
    graded = {
        "Then Mia slept in her own bed.": 1, "Then Mia slept in her own bed": 0, "Then Mia slept. It was very late.": 0,
        "Soon it was as good as new!": 1, "Mia slept.": 0, "": 0,
    }  # fmt: skip
    assert {text: ending.grade(None, story, text, True) for text in graded} == graded
    assert ending.grade(None, story, "Then Mia slept in her own bed.", False) == 0


def test_wilsons_limits_are_where_the_share_is_as_far_away_as_chance_allows():
    """The limits are the solutions p of (share - p)² = z² p (1 - p) / n."""
    for right, count in ((0, 96), (96, 96), (1, 2), (40, 96)):
        low, high = evaluation.wilson_interval(right, count)
        for p in (low, high):
            assert (right / count - p) ** 2 == pytest.approx(1.96**2 * p * (1 - p) / count, abs=1e-12)
        assert 0 <= low <= right / count <= high <= 1 and low < high


def test_the_chance_of_a_difference_is_counted_over_all_outcomes():
    for better, worse in ((0, 0), (1, 0), (2, 5), (4, 4), (9, 0)):
        outcomes = product((0, 1), repeat=better + worse)
        counted = [abs(2 * sum(coins) - better - worse) >= abs(better - worse) for coins in outcomes]
        assert evaluation.chance_of_difference(better, worse) == pytest.approx(sum(counted) / len(counted))


def test_the_summary_says_whether_something_was_learned():
    def made(right: int, wrong: int, first: bool) -> Evaluation:
        return Evaluation([first] * right + [not first] * wrong, [])

    describe = evaluation.describe_difference
    assert "no answer changed" in describe("Rewards", made(4, 4, True), made(4, 4, True))
    said = describe("Rewards", made(5, 0, False), made(5, 0, True))
    assert "5 answers became right, and 0 became wrong" in said and "is 0.06: this shows no learning" in said
    assert "less than 0.001: the model has learned" in describe("Rewards", made(20, 0, False), made(20, 0, True))
    assert "the model has become worse" in describe("Rewards", made(20, 0, True), made(20, 0, False))


def test_files_that_cannot_be_used_get_one_sentence(tunings, tiny_gguf):
    tuning = tunings.begin(tiny_gguf, "mine")
    assert not tuning_run.run(tuning, Silent(), lambda: True)
    file = tuning.folder / adapters.FILE
    whole = file.read_bytes()

    def said() -> str:
        with pytest.raises(TuneProblem) as caught:
            tunings.resume("mine")
        return str(caught.value)

    for damaged in (whole[: len(whole) // 2], b"", b"x" * 100):
        file.write_bytes(damaged)
        assert "is damaged" in said() and "tune the model again" in said()
    save_file({"a": torch.zeros(2)}, file)
    assert "was not written by `headway tune`" in said()
    for format, record, sentence in (("9", "{}", "another version"), ("1", "{", "record"), ("1", "{}", "record")):
        save_file({"a": torch.zeros(2)}, file, {"format": format, "record": record})
        assert sentence in said()
    other = tunings.begin("stories", "other")
    assert not tuning_run.run(other, Silent(), lambda: True)
    saved = adapters.read("other")
    with pytest.raises(TuneProblem, match="belong to a model that writes stories"):
        adapters.find_place(saved, None)
    base = tunings.open(tiny_gguf)
    with pytest.raises(TuneProblem, match="do not fit this model"):
        adapters.merge(base.parts, base.model, saved)
    with pytest.raises(TuneProblem, match="there are no adapters 'nothing'; you have "):
        adapters.read("nothing")
    with pytest.raises(CheckpointProblem, match="there is a checkpoint mine already"):
        tunings.begin(tiny_gguf, "mine")
    with pytest.raises(TuneProblem, match="has no digits, so it cannot learn sums"):
        tunings.begin("stories", "third", "sums")


def test_a_crash_in_the_learners_code_names_the_line_and_the_checkpoint_stays(tunings, tiny_gguf):
    """It works while the model answers, and not in training."""
    old = "        return self.linear(x) + self.scale * (x @ self.A.T) @ self.B.T"
    crashing = f"        assert not torch.is_grad_enabled(), 'gradients'\n{old}"
    tunings.chapters["ch17_fine_tuning"] = solved("ch17_fine_tuning", (old, crashing))
    tuning = tunings.begin(tiny_gguf)
    assert "LoRALinear" in tuning.base.own.learner
    with pytest.raises(CodeProblem, match=r"your LoRALinear raised AssertionError: gradients \(ch17_fine_tuning.py, line \d+"):
        tuning_run.run(tuning, Silent())
    assert len(tunings.resume("one").progress.evaluations) == 1


def progress_of(task: str = "sums", kind: str = "published", **changes) -> Progress:
    return replace(Progress(kind, None, task, 0, 10.0, tasks.TASKS[kind][task].answer_steps, None), **changes)


def answers_of(*right: bool) -> Evaluation:
    return Evaluation(list(right), [])


def test_time_is_divided_among_tests_and_phases():
    progress = progress_of(answer_steps=20)
    progress.seconds |= {"opening": 30.0, "evaluation": 60.0}
    progress.evaluations = [answers_of(True)]
    training = 600 - 30 - 3 * 60
    assert progress.phase_seconds("answers") == pytest.approx(ANSWERS_SHARE * training)
    assert progress.share_done("answers") == 0.0, "each phase has one step at least"
    progress.losses, progress.seconds["answers"] = [1.0] * 5, ANSWERS_SHARE * training / 2
    assert progress.phase_seconds("answers") == pytest.approx(ANSWERS_SHARE * training), "also while it runs"
    assert progress.share_done("answers") == pytest.approx(0.55), "half of the time, and half of the next step"
    progress.losses = [1.0] * 20
    assert progress.share_done("answers") == 1.0
    progress.evaluations *= 2
    progress.seconds["evaluation"] = 80.0  # the second test was shorter
    assert progress.phase_seconds("rewards") == pytest.approx(600 - 30 - 120 - ANSWERS_SHARE * training / 2)
    task, left = tasks.TASKS["published"]["sums"], progress.phase_seconds("rewards")
    assert progress.prompts_that_fit(task) == 1, "the first step has a question, also if its answers may take too long"
    progress.evaluations = [answers_of(*[True] * 40)] * 2
    assert progress.prompts_that_fit(task) == 8, "an answer of the tests took a second"
    progress.rewards, progress.prompts, progress.seconds["rewards"] = [0.0] * 2, 16, 0.75 * left
    assert progress.prompts_that_fit(task) == 5, "so many in a third of the time of 16"
    progress.seconds["rewards"] = 0.9 * left
    assert progress.prompts_that_fit(task) == 0, "a step with a single question would not teach much"


@pytest.mark.parametrize(("minutes", "seconds_a_question", "questions"), [(9, 0.5, 96), (1, 0.5, 20), (1, 5.0, 8), (1, 0.0, 96)])
def test_the_number_of_questions_fits_into_the_time(minutes, seconds_a_question, questions):
    progress = progress_of(minutes=float(minutes))
    progress.plan_tests(seconds_a_question)
    assert progress.questions == questions
    assert questions == evaluation.FEWEST_QUESTIONS or 3 * questions * seconds_a_question <= 30 * minutes


class Work:
    """A clock that only the model's work moves: each row of a forward pass takes so many seconds."""

    def __init__(self, monkeypatch, base, seconds: float) -> None:
        self.now, self.seconds = 0.0, seconds
        base.model.register_forward_pre_hook(lambda model, given: self.add(len(given[0])))
        for module in (tuning_run, interruptible_run):
            monkeypatch.setattr(module, "time", self)

    def add(self, rows: int) -> None:
        self.now += self.seconds * rows

    def monotonic(self) -> float:
        return self.now


class Watched(Silent):
    """What is shown, and the lines that are written where the output is no terminal."""

    def __init__(self) -> None:
        self.shown, self.lines = [], []

    def update(self, view) -> None:
        self.shown.append(view.describe())

    def moment(self, view) -> None:
        self.lines.append(view.describe())


@pytest.fixture
def worked(tunings, tiny_gguf, monkeypatch):
    """Makes a tuning of a minute in which each row of a pass takes so many seconds, and more once the machine is
    slower."""
    monkeypatch.setattr(evaluation, "HELD_OUT_QUESTIONS", 20)
    monkeypatch.setattr(tasks.Sums, "prompts", 4)

    def make(seconds: float, name: str = "one", slower=lambda tuning: False, times: float = 10.0):
        base = tunings.open(tiny_gguf)
        work = Work(monkeypatch, base, seconds)
        tuning = tuning_run.begin(base, "sums", name, 0, 1.0, None)

        def slow_down(model, given) -> None:
            if slower(tuning):
                work.seconds = times * seconds

        base.model.register_forward_pre_hook(slow_down)
        return tuning, work

    return make


def test_a_slower_machine_asks_fewer_questions_in_the_same_time(worked):
    found = {}
    for seconds in (0.04, 0.1, 0.22):
        tuning, work = worked(seconds, f"run-{seconds}")
        assert tuning_run.run(tuning, Silent()) and work.now <= 66
        found[seconds] = [len(one.right) for one in tuning.progress.evaluations], tuning.progress.prompts
        assert tuning.progress.losses and tuning.progress.rewards
    (fast, many), (slow, some), (slowest, few) = found.values()
    assert fast == [20] * 3 and len(set(slow)) == 1 and slowest == [8] * 3 and 8 < slow[0] < 20 and many > some > few


SLOWER = {
    "the second test": lambda tuning: len(tuning.progress.evaluations) == 1 and tuning.progress.losses,
    "rewards": lambda tuning: len(tuning.progress.evaluations) == 2,
    "the third test": lambda tuning: tuning.progress.prompts >= 8,
}


@pytest.mark.parametrize("moment", SLOWER)
def test_the_minutes_are_kept_if_the_machine_becomes_slower(worked, moment):
    """Tests are cut and compared on the same questions, and a step on rewards whose answers take too long is given up."""
    tuning, work = worked(0.05, slower=SLOWER[moment], times=4.0 if "test" in moment else 20.0)
    assert tuning_run.run(tuning, Silent())
    progress = tuning.progress
    assert work.now <= 75
    lengths = {len(one.right) for one in progress.evaluations}
    assert lengths == {progress.questions} and min(lengths) >= (20 if moment == "rewards" else 8)
    said = " ".join(tuning_progress.describe_length(progress, tuning.task))
    assert ("There was no time for a step on rewards." in said) == (not progress.rewards) == (moment == "rewards")
    assert tuning_progress.minutes_that_help(progress, tuning.task) > 1
    assert [one["right"] for one in adapters.read("one").record["evaluations"]] == [one.right for one in progress.evaluations]


def test_without_an_answer_in_time_the_tuning_says_that_it_was_too_short(worked):
    tuning, work = worked(0.05, slower=SLOWER["the second test"], times=100.0)
    with pytest.raises(TuneProblem, match=r"1 minute is too short for .* give more time: `headway tune .* --minutes \d+`"):
        tuning_run.run(tuning, Silent())
    assert work.now <= 100


def test_a_resumed_tuning_keeps_the_rest_of_its_time(worked, tunings):
    """The time of a test that is interrupted does not count: it begins again."""
    tuning, work = worked(0.05)
    asked = iter(range(100))
    assert not tuning_run.run(tuning, Silent(), lambda: next(asked) >= 1) and work.now > 2
    assert tuning.progress.seconds_spent == 0 and adapters.read("one").record["may_take_longer"] is False
    tuning, work = worked(0.05, "two")
    assert not tuning_run.run(tuning, Silent(), stop_after(tuning, "rewards", 1))
    spent = work.now
    again = tunings.resume("two")
    assert again.progress.seconds_left == pytest.approx(60 - spent) and not again.progress.may_take_longer


def test_while_it_tests_the_answers_are_counted(worked):
    page = Watched()
    tuning, work = worked(0.15)
    assert tuning_run.run(tuning, page)
    count, tested = tuning.progress.questions, [line for line in page.shown if "test 2 of 3" in line]
    numbers = [int(re.search(r"question (\d+) of", line)[1]) for line in tested]
    assert numbers == sorted(numbers) and numbers[0] < numbers[-1] == count and len(tested) > len(set(numbers))
    lines = [line for line in page.lines if "test " in line]
    assert len(lines) <= 3 + 1 + tuning.progress.seconds["evaluation"] / interruptible_run.LINE_SECONDS
    assert any(re.search(rf"test 1 of 3: .*, question [1-9]\d* of {count}, 0:\d\d left", line) for line in lines)


class Clock:
    """Each look at it takes so many seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.now = seconds, 0.0

    def monotonic(self) -> float:
        self.now += self.seconds
        return self.now


def test_a_time_that_is_too_short_is_refused_while_it_runs_and_the_usual_time_is_extended(tunings, tiny_gguf, monkeypatch):
    monkeypatch.setattr(evaluation, "HELD_OUT_QUESTIONS", 20)

    def begin(name: str, minutes: float | None):
        return tuning_run.begin(tunings.open(tiny_gguf), "sums", name, 0, minutes, None)

    clock = Clock(12.0)
    for module in (tuning_run, interruptible_run):
        monkeypatch.setattr(module, "time", clock)
    with pytest.raises(TuneProblem, match=r"1 minute is too short for Tiny-Llama at the present speed of this machine; give more time: `headway tune --task sums --base .*gguf --minutes ([5-9]|[1-4]\d)`"):
        tuning_run.run(begin("short", 1.0), Silent())
    assert clock.now <= 100
    clock.seconds = 2.0
    tuning = begin("long", None)
    tuning.progress.minutes = 0.5
    page = Watched()
    assert tuning_run.run(tuning, page) and tuning.progress.minutes > 0.5
    count = tuning.progress.questions
    assert 8 <= count <= 20 and all(len(each.right) == count for each in tuning.progress.evaluations)
    assert any(re.search(r"test 1 of 3: .*, question 0, to measure the speed, 0:\d\d left", line) for line in page.shown)
    assert any(re.search(rf"test 2 of 3: .*, question {count} of {count}, \d:\d\d left", line) for line in page.shown)


def test_a_tuning_that_taught_nothing_says_how_long_usually_helps():
    task = tasks.TASKS["published"]["sums"]
    nothing, much = answers_of(*[False] * 16), answers_of(*[True] * 16)
    progress = progress_of(minutes=1.0, questions=16, losses=[1.0] * 2, rewards=[0.0], kls=[0.0], prompts=8)
    progress.seconds |= {"opening": 5.0, "evaluation": 24.0, "answers": 6.0, "rewards": 10.0}
    progress.evaluations = [nothing] * 3
    said = " ".join(tuning_progress.describe_length(progress, task))
    assert said == "The tuning was short. It made 2 of 20 steps on right answers and 1 of 15 steps on rewards; so many taught this to the model of lesson 17."
    minutes = tuning_progress.minutes_that_help(progress, task)
    longer = progress_of(minutes=float(minutes))
    longer.plan_tests(0.5)
    assert longer.questions == 96, "the tests are whole"
    longer.seconds |= {"opening": 5.0, "evaluation": 48.0}
    longer.evaluations = [nothing]
    assert longer.phase_seconds("answers") >= 20 * 3.0
    longer.losses, longer.seconds["answers"], longer.seconds["evaluation"] = [1.0] * 20, 60.0, 96.0
    longer.evaluations *= 2
    assert longer.phase_seconds("rewards") >= 15 * 10.0
    assert tuning_progress.command(progress, minutes) == f"headway tune --task sums --minutes {minutes}"
    progress.evaluations = [nothing, much, much]
    assert "1 of 15 steps on rewards; so many" in " ".join(tuning_progress.describe_length(progress, task)) and "right answers" not in " ".join(tuning_progress.describe_length(progress, task))
    progress.prompts = 4
    assert "1 of 15 steps on rewards (smaller ones); so many" in " ".join(tuning_progress.describe_length(progress, task))
    progress.losses, progress.rewards, progress.evaluations, progress.prompts = [1.0] * 20, [0.0] * 15, [nothing] * 3, 120
    assert list(tuning_progress.describe_length(progress, task)) == ["As many steps taught this to the model of lesson 17. Another --seed may go better."]
    assert tuning_progress.minutes_that_help(progress, task) is None
    progress.evaluations = [nothing, much, much]
    assert list(tuning_progress.describe_length(progress, task)) == []
    progress.seconds["rewards"] = 600.0
    assert "It took 10.6 minutes instead of 1" in " ".join(tuning_progress.describe_length(progress, task))


def test_the_steps_that_helped_are_those_of_the_lesson():
    lesson = " ".join((EXERCISES / "ch17_fine_tuning.md").read_text(encoding="utf-8").split())
    assert tasks.Sums.enough == (20, 15) and "After 20 steps on right answers" in lesson and "after 15 steps on rewards" in lesson
    assert tasks.Json.enough == (4, None) and "four steps on right answers" in lesson and "rewards had nothing left to teach" in lesson
