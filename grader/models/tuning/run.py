"""One tuning from its first step to its last: evaluations, two phases of training, the page, checkpoints, Control-C."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from grader.models import checkpoint
from grader.models.own_parts import closing_after_failure, explaining_crashes
from grader.models.training.live_page import Page
from grader.models.training.making import free_name
from grader.models.training.optimizer_state import read_state, restore_state
from grader.models.training.trainer import ClippingOptimizer, NotANumber, prepare_torch
from grader.models.tuning import adapters as adapter_file
from grader.models.tuning.adapters import Values, add_adapters, fill
from grader.models.tuning.base import Base, open_base
from grader.models.tuning.evaluation import evaluate
from grader.models.tuning.progress import ANSWERS, REWARDS, Progress, View
from grader.models.tuning.steps import make_optimizer, step_on_answers, step_on_rewards
from grader.models.tuning.tasks import TASKS, Task, TuneProblem
from grader.teaching.walks.parts import hidden_prints
from grader.teaching.walks.progress_line import ProgressReporter
from torch import nn

SAVE_SECONDS = 20.0  # between two checkpoints, at least
MOMENTS_A_PHASE = 8


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

    def save(self) -> None:
        """Write the checkpoint; a finished tuning needs only its adapters."""
        adapters = {name: parameter.data for name, parameter in self.adapters.items()}
        going_on = not self.progress.is_finished
        start, state = (self.start, read_state(self.optimizer.optimizer)) if going_on else ({}, {})
        record = asdict(self.progress)
        adapter_file.save(self.folder, adapter_file.Saved(self.name, record, adapters, start, state))

    def close(self) -> None:
        self.base.own.close()


# ---- making it


def find_task(kind: str, name: str) -> Task:
    """TuneProblem if this kind of model cannot learn the task."""
    if name not in TASKS[kind]:
        raise TuneProblem(
            f"the stories' model has no digits, so it cannot learn {name}; use --task format, or install SmolLM2"
        )
    return TASKS[kind][name]


def begin(base: Base, task: str, name: str | None, seed: int, minutes: float, steps: int | None) -> Tuning:
    """A new tuning of this base, which it takes over. TuneProblem if it cannot begin."""
    with closing_after_failure(base.own):
        folder = checkpoint.CHECKPOINTS / (name or free_name(f"{task}-{base.kind}"))
        if folder.exists():
            raise TuneProblem(
                f"there is a checkpoint {name} already; go on with it by --resume, or choose another --name"
            )
        progress = Progress(base.kind, base.place, task, seed, minutes, find_task(base.kind, task).answer_steps, steps)
        return _make(base, progress, folder)


def resume(name: str | None, report_progress: ProgressReporter) -> Tuning:
    """The tuning of this name, or the latest, where it was interrupted. TuneProblem if it cannot go on."""
    known = adapter_file.list_tunings()
    if name is None and not known:
        raise TuneProblem("there are no adapters yet; `headway tune` makes some")
    saved = adapter_file.read(name or known[0].name)
    try:
        progress = Progress.from_data(saved.record)
    except (KeyError, TypeError, ValueError):
        raise TuneProblem(f"the record of the adapters {saved.name} is damaged; tune the model again") from None
    base = open_base(progress.base, report_progress)
    with closing_after_failure(base.own):
        tuning = _make(base, progress, checkpoint.CHECKPOINTS / saved.name)
        fill(tuning.adapters, saved)
        tuning.start = saved.start
        if not progress.is_finished:
            _restore(tuning, saved.optimizer)
        return tuning


def _make(base: Base, progress: Progress, folder: Path) -> Tuning:
    task = find_task(base.kind, progress.task)
    prepare_torch(progress.seed)
    adapters = add_adapters(base.parts, base.model)
    return Tuning(folder, base, task, progress, adapters, make_optimizer(base, adapters), {})


def _restore(tuning: Tuning, state: Values) -> None:
    """Give AdamW its state. If it has made updates, one with the learning rate 0 makes the places for their state; it
    changes nothing."""
    if restore_state(tuning.optimizer.optimizer, state):
        return
    for adapter in tuning.adapters.values():
        adapter.grad = torch.zeros_like(adapter)
    tuning.optimizer.step()
    if not restore_state(tuning.optimizer.optimizer, state):
        raise TuneProblem(f"the optimizer of {tuning.name} does not fit your AdamW any more; tune the model again")


# ---- running it


def run(tuning: Tuning, page: Page, interrupted: Callable[[], bool] = lambda: False) -> bool:
    """Tune to the end, or until `interrupted`; return whether the end was reached. Saves on the way and at the end.

    CodeProblem if the learner's code raises an exception; the last checkpoint stays.
    """
    view = View(tuning.name, tuning.progress)
    with explaining_crashes(tuning.base.parts, NotANumber):
        try:
            finished = _run(tuning, page, view, interrupted)
            tuning.save()
            return finished
        finally:
            view.notice = ""
            page.close(view)


def _run(tuning: Tuning, page: Page, view: View, interrupted: Callable[[], bool]) -> bool:
    progress = tuning.progress
    while not progress.is_finished:
        if progress.evaluations and not _train(tuning, page, view, interrupted):
            return False
        view.trains, view.doing = False, f"test {len(progress.evaluations) + 1} of 3: answers to held-out questions"
        page.moment(view)
        with _timed(progress, "evaluation" if not progress.evaluations else ""), hidden_prints():
            found = evaluate(tuning.base, tuning.task, interrupted)
        if found is None:
            return False
        progress.evaluations.append(found)
        if progress.phase == REWARDS and not progress.is_finished:
            tuning.start = {name: parameter.detach().clone() for name, parameter in tuning.adapters.items()}
            tuning.optimizer = make_optimizer(tuning.base, tuning.adapters)
        tuning.save()
    return True


def _train(tuning: Tuning, page: Page, view: View, interrupted: Callable[[], bool]) -> bool:
    """Train the rest of this phase; False if it was interrupted."""
    progress, phase, saved = tuning.progress, tuning.progress.phase, time.monotonic()
    view.trains, view.doing = True, f"training on {phase}"
    moments = int(MOMENTS_A_PHASE * progress.share_done(phase))
    while progress.share_done(phase) < 1:
        if interrupted():
            return False
        with _timed(progress, phase), hidden_prints():
            _step(tuning, phase)
        if time.monotonic() - saved > SAVE_SECONDS:
            tuning.save()
            saved = time.monotonic()
        if int(MOMENTS_A_PHASE * progress.share_done(phase)) > moments:
            moments = int(MOMENTS_A_PHASE * progress.share_done(phase))
            page.moment(view)
        page.update(view)
    return True


def _step(tuning: Tuning, phase: str) -> None:
    progress, base, task = tuning.progress, tuning.base, tuning.task
    step = progress.steps_done(phase)
    if phase == ANSWERS:
        progress.losses.append(step_on_answers(base, task, tuning.optimizer, progress.seed, step))
        return
    reward, kl = step_on_rewards(base, task, tuning.adapters, tuning.start, tuning.optimizer, progress.seed, step)
    progress.rewards.append(reward)
    progress.kls.append(kl)


@contextmanager
def _timed(progress: Progress, name: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    if name:
        progress.seconds[name] += time.monotonic() - began
