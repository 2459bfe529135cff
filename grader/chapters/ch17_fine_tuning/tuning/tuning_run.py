"""One tuning from its first step to its last: evaluations, two phases of training, the page, checkpoints, Control-C."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from grader.chapters.ch17_fine_tuning.tuning import adapters as adapter_file
from grader.chapters.ch17_fine_tuning.tuning.adapters import add_adapters, fill
from grader.chapters.ch17_fine_tuning.tuning.base import (
    Base,
    open_base,
)
from grader.chapters.ch17_fine_tuning.tuning.evaluation import (
    FEWEST_QUESTIONS,
    Evaluation,
    evaluate,
    held_out_questions,
)
from grader.chapters.ch17_fine_tuning.tuning.tasks import TASKS, Question, Task, TuneProblem
from grader.chapters.ch17_fine_tuning.tuning.tuning_progress import (
    ANSWERS,
    DRAWING_SHARE,
    MINUTES_BY_BASE,
    MORE,
    REWARDS,
    TESTS,
    Progress,
    View,
    command,
    describe_minutes,
)
from grader.chapters.ch17_fine_tuning.tuning.tuning_steps import make_optimizer, step_on_answers, step_on_rewards
from grader.chapters.interruptible_run import Interrupted, restore_optimizer, saving, take_steps
from grader.chapters.run_file import Values
from grader.console.output import ProgressReporter
from grader.models import checkpoint
from grader.models.own_parts import OwnParts, closing_after_failure
from grader.models.training.live_page import Page
from grader.models.training.trainer import ClippingOptimizer, prepare_torch, read_state
from grader.models.training.training_run import new_folder
from grader.teaching.walks.parts import hidden_prints
from torch import nn

FEWEST_TESTS = 5  # the time of the shortest tuning, in tests: three, and a small step of each phase


@dataclass
class Tuning:
    """Everything that runs."""

    folder: Path
    base: Base
    task: Task
    progress: Progress
    adapters: dict[str, nn.Parameter]
    optimizer: ClippingOptimizer
    start: Values  # the adapters' values at the beginning of the phase of rewards

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def own(self) -> OwnParts:
        return self.base.own

    def save(self) -> None:
        """Write the checkpoint; a finished tuning needs only its adapters."""
        adapters = {name: parameter.data for name, parameter in self.adapters.items()}
        going_on = not self.progress.is_finished
        start, state = (self.start, read_state(self.optimizer.optimizer)) if going_on else ({}, {})
        record = asdict(self.progress)
        adapter_file.save(self.folder, adapter_file.Saved(self.name, record, adapters, start, state))

    def require_time(self, seconds: float, advised: float) -> None:
        """Plan at least this time, or raise TuneProblem, with the advised time, if the user chose a shorter one."""
        progress = self.progress
        needed, better = ((progress.seconds["opening"] + time) / 60 for time in (seconds, MORE * advised))
        if progress.steps is not None or needed <= progress.minutes:
            return
        if not progress.may_take_longer:
            raise self.too_short(better)
        progress.minutes = math.ceil(needed)

    def too_short(self, better: float) -> TuneProblem:
        return TuneProblem(
            f"{describe_minutes(self.progress.minutes)} too short for {self.base.name} at the present speed of this "
            f"machine; give more time: `{command(self.progress, math.ceil(better))}`"
        )

    def close(self) -> None:
        self.own.close()


# ---- making it


def find_task(kind: str, name: str) -> Task:
    """TuneProblem if this kind of model cannot learn the task."""
    if name not in TASKS[kind]:
        raise TuneProblem(
            f"the stories' model has no digits, so it cannot learn {name}; use --task format, or install SmolLM2"
        )
    return TASKS[kind][name]


def begin(
    base: Base, task: str, name: str | None, seed: int, minutes: float | None, steps: int | None,
    opening_seconds: float = 0.0,
) -> Tuning:  # fmt: skip
    """A new tuning of this base, which it takes over. The time in which it was opened counts. Without minutes, it takes
    as long as usual, or longer on a slow machine. TuneProblem or CheckpointProblem if it cannot begin."""
    with closing_after_failure(base.own):
        folder = new_folder(name, f"{task}-{base.kind}")
        most, length = find_task(base.kind, task).answer_steps, minutes or MINUTES_BY_BASE[base.kind]
        progress = Progress(base.kind, base.place, task, seed, length, most, steps)
        progress.seconds["opening"], progress.may_take_longer = opening_seconds, minutes is None
        return _make(base, progress, folder)


def resume(name: str | None, report_progress: ProgressReporter, base: Base | None = None) -> Tuning:
    """The tuning of this name, or the latest, where it was interrupted; of this base, or of the one that it names.
    TuneProblem if it cannot go on."""
    saved = adapter_file.read(name)
    try:
        progress = Progress.from_data(saved.record)
    except (KeyError, TypeError, ValueError):
        raise TuneProblem(f"the record of the adapters {saved.name} is damaged; tune the model again") from None
    base = base or open_base(progress.base, report_progress)
    with closing_after_failure(base.own):
        tuning = _make(base, progress, checkpoint.CHECKPOINTS / saved.name)
        fill(tuning.adapters, saved)
        tuning.start = saved.start
        if not progress.is_finished:
            optimizer = tuning.optimizer
            if not restore_optimizer(optimizer.optimizer, optimizer.parameters, saved.optimizer):
                raise TuneProblem(
                    f"the optimizer of {tuning.name} does not fit your AdamW any more; tune the model again"
                )
        return tuning


def _make(base: Base, progress: Progress, folder: Path) -> Tuning:
    task = find_task(base.kind, progress.task)
    prepare_torch(progress.seed)
    adapters = add_adapters(base.parts, base.model)
    return Tuning(folder, base, task, progress, adapters, make_optimizer(base, adapters), {})


# ---- running it


def run(tuning: Tuning, page: Page, interrupted: Interrupted = lambda: False) -> bool:
    """Tune to the end, or until `interrupted`; return whether the end was reached. Saves on the way and at the end.

    CodeProblem if the learner's code raises an exception; the last checkpoint stays.
    """
    progress, view = tuning.progress, View(tuning.name, tuning.progress)
    with saving(tuning, view, page):
        while not progress.is_finished:
            if progress.evaluations and not _train(tuning, page, view, interrupted):
                return False
            found = _test(tuning, page, view, interrupted)
            if found is None:
                return False
            progress.add_evaluation(found)
            if progress.phase == REWARDS and not progress.is_finished:
                tuning.start = {name: parameter.detach().clone() for name, parameter in tuning.adapters.items()}
                tuning.optimizer = make_optimizer(tuning.base, tuning.adapters)
            tuning.save()
        return True


def _test(tuning: Tuning, page: Page, view: View, interrupted: Interrupted) -> Evaluation | None:
    """Ask held-out questions. The first ones of the first test show how many there can be."""
    progress, asked = tuning.progress, held_out_questions(tuning.base, tuning.task)
    if progress.phase == REWARDS and not progress.rewards:
        return progress.evaluations[-1]  # of the same model
    view.begin_test(f"test {len(progress.evaluations) + 1} of {TESTS}: answers to held-out questions", page)

    def answer(questions: Sequence[Question], before: int = 0) -> Evaluation | None:
        tokens = itertools.count(1)

        def is_late(answered: int) -> bool:
            view.note_answered(page, before + answered)
            spent = time.monotonic() - view.test_began
            if progress.questions is None:
                share = min(next(tokens) / tuning.task.most_tokens, 1.0)  # of the first answers that is written
                tuning.require_time(spent * FEWEST_TESTS, spent * FEWEST_TESTS / share)
                return False
            return progress.is_late(before + answered, spent)

        return evaluate(tuning.base, tuning.task, questions, interrupted, is_late)

    def whole_test() -> Evaluation | None:
        if progress.questions is not None:
            return answer(asked[: progress.questions])
        measured = asked[:FEWEST_QUESTIONS]
        first = answer(measured)
        if first is None:
            return None
        seconds = time.monotonic() - view.test_began
        tuning.require_time(seconds * FEWEST_TESTS, seconds * FEWEST_TESTS)
        progress.plan_tests(seconds / len(measured))
        page.moment(view)
        others = asked[len(measured) : progress.questions]
        rest = answer(others, len(measured)) if others else Evaluation([], [])
        return rest and first + rest

    with hidden_prints():
        found = whole_test()
    if found is not None:  # else it begins again later, and its time does not count
        progress.seconds["evaluation"] += time.monotonic() - view.test_began
        if not found.right:
            raise tuning.too_short(MORE * 2 * progress.seconds_spent / 60)
    return found


def _train(tuning: Tuning, page: Page, view: View, interrupted: Interrupted) -> bool:
    """Train the rest of this phase; False if it was interrupted."""
    progress, phase = tuning.progress, tuning.progress.phase
    view.doing, step = f"training on {phase}", _answers_step if phase == ANSWERS else _rewards_step

    def is_over() -> bool:
        return progress.share_done(phase) == 1 if phase == ANSWERS else not progress.prompts_that_fit(tuning.task)

    return take_steps(tuning, view, page, interrupted, partial(step, tuning), phase, is_over)


def _answers_step(tuning: Tuning) -> None:
    progress = tuning.progress
    made = step_on_answers(tuning.base, tuning.task, tuning.optimizer, progress.seed, len(progress.losses))
    progress.losses.append(made)


def _rewards_step(tuning: Tuning) -> None:
    """It is given up where drawing its answers takes much longer than expected."""
    progress, count = tuning.progress, tuning.progress.prompts_that_fit(tuning.task)
    most = math.inf if progress.may_take_longer or progress.steps else DRAWING_SHARE * progress.rewards_left
    end = time.monotonic() + most
    made = step_on_rewards(
        tuning.base, tuning.task, tuning.adapters, tuning.start, tuning.optimizer, progress.seed,
        len(progress.rewards), count, lambda ended: time.monotonic() > end,
    )  # fmt: skip
    progress.prompts += count
    if made is not None:
        progress.rewards.append(made[0])
        progress.kls.append(made[1])
