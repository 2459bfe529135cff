"""Run a walk: find out whose code runs, measure with it, print the walk."""

from __future__ import annotations

import os
import random
import sys
import warnings
from types import ModuleType, SimpleNamespace
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: the same sums everywhere, and small models need no more

import torch  # noqa: E402
from grader.console.output import command_line, make_console  # noqa: E402
from grader.course.syllabus import load_syllabus  # noqa: E402
from grader.teaching.walks import load, template_path  # noqa: E402
from grader.teaching.walks.exercise_status import ExerciseStatus, find_status  # noqa: E402
from grader.teaching.walks.parts import MixedChapters, NotInHandout, hidden_prints  # noqa: E402
from grader.teaching.walks.progress_line import ProgressReporter, show_progress  # noqa: E402
from grader.teaching.walks.template import fill, print_template, read_template  # noqa: E402
from grader.teaching.walks.walk_page import WalkPage  # noqa: E402


def run_walk(name: str, seed: int) -> None:
    """Run the whole walk. Raises NotInHandout if this handout lacks an exercise that the walk needs, and another
    UserProblem if it cannot run on this machine."""
    walk, template = load_available_walk(name), read_template(template_path(name))
    if hasattr(walk, "require"):
        walk.require()
    walk_page = WalkPage(make_console())
    walk_page.console.print(f"headway walk {name}", style="bold")
    walk_page.say(template.title)
    walk_page.console.print()
    status = find_status(walk.REQUIRED_EXERCISES, show_progress)
    measurement = measure(walk, status, seed, show_progress)
    learner = [name for name in _in_course_order(measurement) if name in measurement.from_learner]
    for sentence in [*status.sentences_about(learner, measurement.from_reference), *measurement.notes]:
        walk_page.say(sentence)
    numbers = template_numbers(walk, measurement.numbers)
    print_template(walk_page, template, numbers)
    walk_page.heading("Next")
    _print_next_step(walk_page, fill(template.next_step, numbers), measurement)


def load_available_walk(name: str) -> ModuleType:
    """Import the walk; raise NotInHandout if it needs exercises that this handout leaves out."""
    walk = load(name)
    here = {exercise.name for exercise in load_syllabus().exercises}
    if gone := [exercise for exercise in walk.REQUIRED_EXERCISES if exercise not in here]:
        others = f" and {len(gone) - 1} more exercises" if len(gone) > 1 else ""
        verb = "are" if others else "is"
        raise NotInHandout(f"the walk {name} needs {gone[0]}{others}, which {verb} not in this handout")
    return walk


def template_numbers(walk: ModuleType, numbers: SimpleNamespace) -> dict[str, Any]:
    """Return all that the walk's template may name: the module's constants, the numbers, and what follows from them."""
    constants = {name: value for name, value in vars(walk).items() if name.isupper()}
    return constants | vars(numbers) | walk.describe(numbers)


def measure(walk: ModuleType, status: ExerciseStatus, seed: int, report_progress: ProgressReporter) -> SimpleNamespace:
    """Return the numbers of the walk, measured with the learner's code where it passes its tests, and whose code ran.

    If such code raises here all the same, the reference's code replaces it, and a note says so.
    """
    passed, notes = set(status.passed), []
    while True:
        parts = MixedChapters(walk.REQUIRED_EXERCISES, passed)
        for why in parts.broken.values():
            notes.append(f"{why}. So this walk uses the reference's code for that whole chapter.")
        passed = set(parts.from_learner)
        random.seed(seed)
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        try:
            with hidden_prints(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                numbers = walk.measure(parts, seed, report_progress)
            authors = {"from_learner": set(parts.from_learner), "from_reference": parts.from_reference}
            return SimpleNamespace(numbers=numbers, notes=notes, **authors)
        except KeyboardInterrupt:
            raise
        except BaseException as trouble:
            if not parts.from_learner:
                raise
            culprit = parts.find_raising_exercise(trouble)
            what = f"{type(trouble).__name__}: {trouble}".split("\n")[0][:120]
            if culprit:
                notes.append(
                    f"Your {culprit} passes its tests but raised {what} here. "
                    "So this walk uses the reference's code for it."
                )
                passed.discard(culprit)
            else:
                notes.append(
                    f"Your code passes its tests, but this walk fails with it ({what}). "
                    "So the walk uses the reference's code for all exercises."
                )
                passed = set()
        finally:
            parts.close()


def _in_course_order(measurement: SimpleNamespace) -> list[str]:
    """Return all exercises of the walk, from both sources, in the order of the course."""
    wanted = measurement.from_learner | set(measurement.from_reference)
    return [exercise.name for exercise in load_syllabus().exercises if exercise.name in wanted]


def _print_next_step(walk_page: WalkPage, next_step: str, measurement: SimpleNamespace) -> None:
    """Propose what to try: the walk's own proposal, then the first exercise of this walk that is not the learner's."""
    walk_page.say(next_step)
    if undone := [name for name in _in_course_order(measurement) if name in measurement.from_reference]:
        walk_page.say(f"The first exercise of this walk that does not use your code yet is {undone[0]}:")
        walk_page.console.print(command_line(f"headway check {undone[0]}"), soft_wrap=True)
    sys.stdout.flush()
