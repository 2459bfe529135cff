"""What has happened in a tuning so far, how its time is divided, and what a terminal shows of it.

After a tuning: whether it was too short to teach something, and how long usually helps.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from grader.chapters import interruptible_run
from grader.chapters.ch17_fine_tuning.tuning import evaluation
from grader.chapters.ch17_fine_tuning.tuning.evaluation import Evaluation, has_learned
from grader.chapters.ch17_fine_tuning.tuning.tasks import TASKS, Task
from grader.models.training.live_page import recent_mean
from grader.version import __version__

MINUTES_BY_BASE = {"published": 9.0, "stories": 3.0}
ANSWERS, REWARDS = PHASES = ("answers", "rewards")
UNSPENT = dict.fromkeys(("opening", "evaluation", *PHASES), 0.0)
TESTS = 1 + len(PHASES)
TESTS_SHARE = 0.5  # of the time, at most, if each has more than the fewest questions
ANSWERS_SHARE = 0.25  # of the time for training, at most
FEWEST_PROMPTS = 2  # of a step on rewards, besides the first one
DRAWING_SHARE = 0.75  # of the time for the steps on rewards, at most, is for the answers of one of them
MORE = 1.1  # time than what is planned or computed from the speed


@dataclass
class Progress:
    """What has happened so far: the part of a checkpoint that is not tensors."""

    kind: str  # of the base
    base: str | None  # where it was found
    task: str
    seed: int
    minutes: float
    answer_steps: int  # at most
    steps: int | None  # of each phase, instead of minutes
    questions: int | None = None  # of each test, at most; None until the speed is measured
    may_take_longer: bool = True  # than planned, where the machine is too slow
    losses: list[float] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)  # means of the batches
    kls: list[float] = field(default_factory=list)
    prompts: int = 0  # of all steps on rewards
    seconds: dict[str, float] = field(default_factory=lambda: dict(UNSPENT))
    evaluations: list[Evaluation] = field(default_factory=list)  # before, after answers, after rewards
    headway: str = __version__

    @property
    def phase(self) -> str:
        return ANSWERS if len(self.evaluations) < 2 else REWARDS

    @property
    def is_finished(self) -> bool:
        return len(self.evaluations) == TESTS

    def steps_done(self, phase: str) -> int:
        return len(self.losses if phase == ANSWERS else self.rewards)

    def plan_tests(self, seconds_a_question: float) -> None:
        """Decide how many questions each test has."""
        most, fewest = evaluation.HELD_OUT_QUESTIONS, evaluation.FEWEST_QUESTIONS
        time = TESTS_SHARE * (60 * self.minutes - self.seconds["opening"]) / TESTS
        fitting = int(time / max(seconds_a_question, 1e-9))
        self.questions = most if self.steps is not None else min(max(fitting, fewest), most)

    def is_late(self, answered: int, spent: float) -> bool:
        """Whether a test should end with these answers, after this time: it is as long as planned, and has the fewest
        answers; or all time is over."""
        if self.steps is not None:
            return False
        made, left = len(self.evaluations), 60 * self.minutes - self.seconds_spent
        share = MORE * TESTS_SHARE * (60 * self.minutes - self.seconds["opening"]) / TESTS
        planned = left if made == TESTS - 1 else min(share, left)
        over = not self.may_take_longer and spent >= left + (MORE - 1) * 60 * self.minutes
        return over or (answered >= evaluation.FEWEST_QUESTIONS and spent >= planned)

    def add_evaluation(self, found: Evaluation) -> None:
        """All tests are compared on the same questions: if this one had to be shorter, on its questions."""
        self.questions = len(found.right)
        self.evaluations = [one.first(self.questions) for one in (*self.evaluations, found)]

    @property
    def seconds_spent(self) -> float:
        return sum(self.seconds.values())

    @property
    def seconds_left(self) -> float:
        return max(60 * self.minutes - self.seconds_spent, 0.0)

    def phase_seconds(self, phase: str) -> float:
        """For the training of this phase. The tests that are still to come take at most as long as those before,
        because tuned answers are short."""
        made = len(self.evaluations)
        tests = self.seconds["evaluation"] / max(made, 1) * (TESTS - made)
        time = max(self.seconds_left - tests, 0.0) + sum(self.seconds[each] for each in PHASES)
        return ANSWERS_SHARE * time if phase == ANSWERS else time - self.seconds[ANSWERS]

    @property
    def rewards_left(self) -> float:
        """Seconds for steps on rewards."""
        return self.phase_seconds(REWARDS) - self.seconds[REWARDS]

    def seconds_a_prompt(self, task: Task) -> float:
        """In a step on rewards. Before the first one, an answer is expected to take as long as in the tests."""
        if self.prompts:
            return self.seconds[REWARDS] / self.prompts
        asked = sum(len(one.right) for one in self.evaluations)
        return task.group * self.seconds["evaluation"] / max(asked, 1)

    def prompts_that_fit(self, task: Task) -> int:
        """Of the next step on rewards: all, or fewer where the time is short; 0 if this phase is over."""
        if self.steps is not None:
            return task.prompts if len(self.rewards) < self.steps else 0
        fitting = min(int(self.rewards_left / max(self.seconds_a_prompt(task), 1e-9)), task.prompts)
        if not self.prompts:
            return max(fitting, 1) if self.may_take_longer or self.rewards_left > 0 else 0
        return fitting if fitting >= FEWEST_PROMPTS or (self.may_take_longer and not self.rewards) else 0

    def share_done(self, phase: str) -> float:
        """1 if this phase is over: also if half of the next step would be too late."""
        done, spent = self.steps_done(phase), self.seconds[phase]
        if self.steps is not None:
            return min(done / self.steps, 1.0)
        if not done:
            return 0.0
        share = (spent + spent / done / 2) / max(self.phase_seconds(phase), 1e-9)
        if phase == ANSWERS:
            share = max(share, done / self.answer_steps)
        return min(share, 1.0)

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Progress:
        """ValueError if its lists do not fit together."""
        evaluations = [Evaluation.from_data(one) for one in data["evaluations"]]
        lengths = {len(one.right) for one in evaluations}
        if len(lengths) > 1 or 0 in lengths or len(data["rewards"]) != len(data["kls"]):
            raise ValueError("lists of different lengths")
        prompts = len(data["rewards"]) * TASKS[data["kind"]][data["task"]].prompts  # before it was recorded
        return cls(**{"prompts": prompts} | data | {"evaluations": evaluations, "seconds": UNSPENT | data["seconds"]})


class View(interruptible_run.View):
    @property
    def share(self) -> float:
        progress: Progress = self.progress
        if self.answered is None:
            return progress.share_done(progress.phase)
        return self.answered / (progress.questions or evaluation.HELD_OUT_QUESTIONS)

    def curves(self) -> dict[str, list[float]]:
        return {"loss  ": self.progress.losses, "reward": self.progress.rewards, "KL    ": self.progress.kls}

    def facts(self) -> list[str]:
        progress: Progress = self.progress
        left = [f"{self.time_left} left"] if progress.steps is None else []
        if self.answered is not None:
            return [self.question, *left]
        most = progress.steps or (progress.answer_steps if progress.phase == ANSWERS else None)
        of = f" of {most:,}" if most else ""
        facts = [f"step {progress.steps_done(progress.phase):,}{of}"]
        numbers = (
            {"loss": progress.losses}
            if progress.phase == ANSWERS
            else {"mean reward": progress.rewards, "KL": progress.kls}
        )
        facts += [f"{name} {mean:.3f}" for name, values in numbers.items() if (mean := recent_mean(values)) is not None]
        return facts + left


NAMES = {ANSWERS: "right answers", REWARDS: "rewards"}


def describe_length(progress: Progress, task: Task) -> Iterator[str]:
    """Sentences, if it took longer than it should, or taught nothing."""
    planned, took = progress.minutes, progress.seconds_spent / 60
    if progress.steps is None and took > planned * MORE:
        longer = "because tests or steps took longer than those at its beginning"
        yield f"It took {took:.1f} minutes instead of {planned:g}, {longer}."
    if not progress.rewards:
        yield "There was no time for a step on rewards."
    yield from describe_steps(progress, task)


def describe_steps(progress: Progress, task: Task) -> Iterator[str]:
    """Why it taught nothing: it may have been too short."""
    if short := _short_phases(progress, task):
        done = (f"{progress.steps_done(phase)} of {_steps(count)} on {NAMES[phase]}" for phase, count in short)
        fewer = " (smaller ones)" if progress.prompts < len(progress.rewards) * task.prompts else ""
        made = f"{' and '.join(done)}{fewer}"
        yield f"The tuning was short. It made {made}; so many taught this to the model of lesson 17."
    elif not any(_learned(progress, phase) for phase in PHASES):
        yield "As many steps taught this to the model of lesson 17. Another --seed may go better."


def minutes_that_help(progress: Progress, task: Task) -> int | None:
    """Minutes in which the phases that were too short have enough steps, at the measured speed; None if none was."""
    if progress.steps is not None or not _short_phases(progress, task):
        return None
    right, rewarded = task.enough
    answers = right * progress.seconds[ANSWERS] / progress.steps_done(ANSWERS)
    rewards = (rewarded or 0) * task.prompts * progress.seconds_a_prompt(task)
    asked = TESTS * (progress.questions or 1)
    tests = TESTS * evaluation.HELD_OUT_QUESTIONS * progress.seconds["evaluation"] / asked
    training = max(answers / ANSWERS_SHARE, answers + rewards)
    return math.ceil(MORE * (progress.seconds["opening"] + max(tests + training, 2 * tests)) / 60)


def _learned(progress: Progress, phase: str) -> bool:
    number = PHASES.index(phase)
    before, after = progress.evaluations[number : number + 2]
    return has_learned(before, after)


def _short_phases(progress: Progress, task: Task) -> list[tuple[str, int]]:
    """The phases that taught nothing and had fewer steps than were enough elsewhere, with that number."""
    enough = zip(PHASES, task.enough)
    return [
        (phase, count)
        for phase, count in enough
        if count is not None and _whole_steps(progress, task, phase) < count and not _learned(progress, phase)
    ]


def _whole_steps(progress: Progress, task: Task, phase: str) -> float:
    return progress.prompts / task.prompts if phase == REWARDS else len(progress.losses)


def describe_minutes(count: float) -> str:
    return f"{count:g} minute is" if count == 1 else f"{count:g} minutes are"


def command(progress: Progress, minutes: int) -> str:
    """The same tuning with another length."""
    base = f" --base {shlex.quote(progress.base)}" if progress.base else ""
    seed = f" --seed {progress.seed}" if progress.seed else ""
    return f"headway tune --task {progress.task}{base}{seed} --minutes {minutes}"


def _steps(count: int) -> str:
    return f"{count} step" if count == 1 else f"{count} steps"
