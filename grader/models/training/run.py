"""The loop of a training, from its first step to its last: the schedule, the page, checkpoints, Control-C, and what
happens when something fails."""

from __future__ import annotations

import time
from collections.abc import Callable

from grader.execution.simulated_group import GroupProblem
from grader.models.own_parts import explaining_crashes
from grader.models.training.live_page import Page, View
from grader.models.training.making import EVALUATIONS, Training
from grader.models.training.trainer import NotANumber

SAMPLED_EVALUATIONS = (1, 2, 4, 8, 12, 16)  # a sample is written after these
SAVE_SECONDS = 20.0  # between two checkpoints, at least
ESTIMATE_SHARE = 0.2  # of the time: by then the number of steps is estimated, also if the warmup is not over
LEAST_STEPS = 3  # before an estimate


def run(training: Training, page: Page, interrupted: Callable[[], bool] = lambda: False) -> bool:
    """Train to the end, or until `interrupted`; return whether the end was reached. Saves on the way and at the end.

    CodeProblem if the learner's code raises an exception; the last checkpoint stays. GroupProblem if another process of
    a team has ended.
    """
    with explaining_crashes(training.own.parts, NotANumber, GroupProblem):
        return _run(training, page, interrupted)


def _run(training: Training, page: Page, interrupted: Callable[[], bool]) -> bool:
    trainer = training.trainer
    view = View(training.name, trainer.history, training.total, notice="Control-C saves and stops.")
    clock = _Clock(training, view)
    saved = time.monotonic()
    try:
        if trainer.steps_done == 0 and not trainer.history.validation:
            trainer.validate()
            trainer.sample()
        clock.note_evaluation()
        page.moment(view)
        while not training.is_finished:
            if interrupted():
                view.notice = "Stopping: the model is being saved."
                page.moment(view)
                training.save()
                return False
            before = trainer.history.tokens, trainer.history.seconds
            if trainer.team:
                trainer.team.announce_plan(training.total)
            trainer.step(training.total)
            view.note_step(trainer.history.seconds - before[1], trainer.history.tokens - before[0])
            if training.total is None:
                training.total = view.total = clock.estimate()
            if training.total is not None and (trainer.steps_done % training.every == 0 or training.is_finished):
                number = trainer.steps_done // training.every
                trainer.validate()
                if number in SAMPLED_EVALUATIONS or training.is_finished:
                    trainer.sample()
                if training.is_finished:
                    break
                if time.monotonic() - saved > SAVE_SECONDS:
                    training.save()
                    saved = time.monotonic()
                view.seconds_left = clock.seconds_left()
                page.moment(view)
            view.seconds_left = clock.seconds_left()
            page.update(view)
        view.seconds_left, view.notice = 0.0, ""
        training.save()
        page.moment(view)
        return True
    finally:
        view.notice = ""
        page.close(view)


class _Clock:
    """How many steps fit into the time, and how much time is left."""

    def __init__(self, training: Training, view: View) -> None:
        self.training, self.view = training, view
        self.began = time.monotonic()
        self.evaluation_seconds = 0.0

    def note_evaluation(self) -> None:
        self.evaluation_seconds = time.monotonic() - self.began

    def estimate(self) -> int | None:
        """The number of steps of the whole training; None while too few have been measured. Until then the learning
        rate rises, whatever the number is."""
        trainer = self.training.trainer
        whole = (self.training.minutes or 1.0) * 60
        elapsed = time.monotonic() - self.began
        if trainer.steps_done < LEAST_STEPS or (
            trainer.steps_done < trainer.recipe.warmup and elapsed < ESTIMATE_SHARE * whole
        ):
            return None
        left = whole - elapsed - self.evaluation_seconds * EVALUATIONS / 2
        recent = sorted(self.view.recent_seconds)
        return max(trainer.steps_done + int(left / max(recent[len(recent) // 2], 1e-6)), trainer.recipe.warmup + 2)

    def seconds_left(self) -> float | None:
        if self.training.total is None or not self.view.recent_seconds:
            return None
        steps = self.training.total - self.training.trainer.steps_done
        evaluations = steps / self.training.every / 2
        return (
            steps * sum(self.view.recent_seconds) / len(self.view.recent_seconds)
            + evaluations * self.evaluation_seconds
        )
