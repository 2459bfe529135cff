"""One run from its first step to its last: training on right answers, then on rewards by both recipes in turn.

A step of each recipe follows one of the other, so both have always made equally many, with the same questions.
"""

from __future__ import annotations

import copy
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
from grader.chapters.ch26_reasoning.reasoning.adder import (
    EXERCISES,
    Adder,
    make_optimizer,
    new_adder,
    share_right,
    step_on_answers,
)
from grader.chapters.ch26_reasoning.reasoning.passing import FEWEST_QUESTIONS, Evaluation, evaluate, held_out_sums
from grader.chapters.ch26_reasoning.reasoning.reason_file import AGAIN, FILES, ReasonProblem
from grader.chapters.ch26_reasoning.reasoning.reason_progress import (
    ANSWER_STEPS,
    ANSWERS,
    CHECK_STEPS,
    MINUTES,
    REWARD_STEPS,
    REWARDS,
    Progress,
    View,
)
from grader.chapters.ch26_reasoning.reasoning.rewarding import RECIPES, step_on_rewards
from grader.chapters.ch26_reasoning.reasoning.sums import NEW_DIGITS
from grader.chapters.interruptible_run import Interrupted, restore_optimizer, saving, take_steps, timed
from grader.chapters.run_file import OPTIMIZER, Values, with_prefix
from grader.console.output import ProgressReporter
from grader.models import checkpoint
from grader.models.own_parts import OwnParts, closing_after_failure, find_own_parts
from grader.models.training.live_page import Page
from grader.models.training.trainer import ClippingOptimizer, prepare_torch, read_state
from grader.models.training.training_run import new_folder
from grader.teaching.walks.parts import hidden_prints

START = "start"


@dataclass
class Trained:
    """A model, and what updates it."""

    adder: Adder
    optimizer: ClippingOptimizer


@dataclass
class Run:
    """Everything that runs."""

    folder: Path
    own: OwnParts
    progress: Progress
    models: dict[str, Trained]  # START, and after the right answers one for each recipe

    @property
    def name(self) -> str:
        return self.folder.name

    def save(self) -> None:
        """Write the checkpoint; a finished run needs only its models."""
        tensors: Values = {}
        for name, each in self.models.items():
            tensors |= {f"{name}.{key}": value for key, value in each.adder.model.named_parameters()}
            if not self.progress.is_finished:
                state = read_state(each.optimizer.optimizer)
                tensors |= {f"{OPTIMIZER}{name}.{key}": value for key, value in state.items()}
        FILES.save(self.folder, asdict(self.progress), tensors)

    def begin_rewards(self) -> None:
        """Copy the model for each recipe; the original is the reference model from now on."""
        parts, model = self.own.parts, self.models[START].adder.model
        for name in RECIPES:
            adder = Adder(parts, copy.deepcopy(model))
            self.models[name] = Trained(adder, make_optimizer(adder))

    def close(self) -> None:
        self.own.close()


# ---- making it


def begin(name: str | None, seed: int, minutes: float | None, report_progress: ProgressReporter) -> Run:
    """A new run. CheckpointProblem or NotInHandout if it cannot begin."""
    folder = new_folder(name, "reason")
    own = find_own_parts(EXERCISES, report_progress)
    with closing_after_failure(own):
        length = minutes or MINUTES
        progress = Progress(seed, length, ANSWER_STEPS, max(round(REWARD_STEPS * length / MINUTES), 1))
        progress.parts = own.to_data()
        return _make(folder, own, progress)


def resume(name: str | None, report_progress: ProgressReporter) -> Run:
    """The run of this name, or the latest, where it was interrupted. ReasonProblem if it cannot go on."""
    name, record, tensors = FILES.read(name)
    try:
        progress = Progress.from_data(record)
    except (KeyError, TypeError, ValueError):
        raise ReasonProblem(f"the record of the run {name} is damaged; {AGAIN}") from None
    own = find_own_parts(EXERCISES, report_progress)
    with closing_after_failure(own):
        run = _make(checkpoint.CHECKPOINTS / name, own, progress)
        if progress.phase == REWARDS:
            run.begin_rewards()
        for each, trained in run.models.items():
            _restore(name, each, trained, tensors, with_optimizer=not progress.is_finished)
        if not progress.is_finished:
            progress.parts = own.to_data()
        return run


def _make(folder: Path, own: OwnParts, progress: Progress) -> Run:
    prepare_torch(progress.seed)
    adder = new_adder(own.parts, progress.seed)
    return Run(folder, own, progress, {START: Trained(adder, make_optimizer(adder))})


def _restore(run: str, name: str, trained: Trained, tensors: Values, with_optimizer: bool) -> None:
    """Give a model, and its optimizer, their values from the file."""
    own, found = dict(trained.adder.model.named_parameters()), with_prefix(tensors, f"{name}.")
    if {key: value.shape for key, value in own.items()} != {key: value.shape for key, value in found.items()}:
        raise ReasonProblem(f"the models of the run {run} do not fit your Llama any more; {AGAIN}")
    with torch.no_grad():
        for key, value in own.items():
            value.copy_(found[key])
    trained.adder.model.eval()
    optimizer, state = trained.optimizer, with_prefix(tensors, f"{OPTIMIZER}{name}.")
    if with_optimizer and not restore_optimizer(optimizer.optimizer, optimizer.parameters, state):
        raise ReasonProblem(f"the optimizers of the run {run} do not fit your AdamW any more; {AGAIN}")


# ---- running it


def run_to_end(run: Run, page: Page, interrupted: Interrupted = lambda: False) -> bool:
    """Run to the end, or until `interrupted`; return whether the end was reached. Saves on the way and at the end.

    CodeProblem if the learner's code raises an exception; the last checkpoint stays.
    """
    progress, view = run.progress, View(run.name, run.progress)
    with saving(run, view, page):
        while not progress.is_finished:
            view.doing, step = f"training on {progress.phase}", partial(_step, run)
            if not take_steps(run, view, page, interrupted, step, progress.phase, lambda: progress.test_is_due):
                return False
            if progress.phase == ANSWERS:
                progress.start = _test(run, START, page, view, interrupted)
                if progress.start is None:
                    return False
                run.begin_rewards()
            else:
                made = {}
                for name in RECIPES:
                    test = _test(run, name, page, view, interrupted)
                    if test is None:
                        return False
                    made[name] = test
                for name, test in made.items():
                    progress.tests[name].append(test)
            run.save()
        return True


def _step(run: Run) -> None:
    progress, start = run.progress, run.models[START]
    if progress.phase == ANSWERS:
        step, share = len(progress.losses), progress.share_done()
        progress.losses.append(step_on_answers(start.adder, start.optimizer, progress.seed, step, share))
        if len(progress.losses) % CHECK_STEPS == 0:
            progress.checks.append(share_right(start.adder, progress.seed, step, NEW_DIGITS))
        return
    step = progress.reward_steps_done
    made = {
        name: step_on_rewards(trained.adder, start.adder, trained.optimizer, recipe, progress.seed, step)
        for name, recipe in RECIPES.items()
        for trained in [run.models[name]]
    }
    for name, outcome in made.items():
        progress.outcomes[name].append(outcome)


def _test(run: Run, name: str, page: Page, view: View, interrupted: Interrupted) -> Evaluation | None:
    """Ask held-out questions. The first ones of the first test show how many there can be. In a short run, a single
    step may be enough for several tests, which then are one."""
    progress, adder = run.progress, run.models[name].adder
    asked, step = held_out_sums(run.own.parts), progress.reward_steps_done
    if (earlier := progress.tests.get(name)) and earlier[-1].step == step:
        return earlier[-1]
    view.begin_test("test before rewards" if name == START else f"test after {step} steps, {name}", page)

    note = partial(view.note_answered, page)
    with timed(progress.seconds, "tests"), hidden_prints():
        if progress.questions is None:
            if evaluate(adder, asked[:FEWEST_QUESTIONS], step, interrupted, note) is None:
                return None
            progress.plan_tests((time.monotonic() - view.test_began) / FEWEST_QUESTIONS)
        return evaluate(adder, asked[: progress.questions], step, interrupted, note)
