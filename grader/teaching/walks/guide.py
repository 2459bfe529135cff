"""Leads a walk from its first line to its picture: whose code runs, measuring with it, telling, and saving."""

from __future__ import annotations

import contextlib
import io
import os
import random
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: the same sums on every machine, and small models are no quicker with more

import torch  # noqa: E402
from grader.console.output import make_console  # noqa: E402
from grader.course.status import short_path  # noqa: E402
from grader.course.syllabus import EXERCISES, is_handout, load_syllabus  # noqa: E402
from grader.files import problem, write_whole  # noqa: E402
from grader.teaching.walks import load, module_name  # noqa: E402
from grader.teaching.walks.exercise_status import ExerciseStatus, find_status  # noqa: E402
from grader.teaching.walks.parts import NotInHandout, Parts  # noqa: E402
from grader.teaching.walks.progress_line import ProgressReporter, show_progress  # noqa: E402
from grader.teaching.walks.walk_page import WalkPage, wait_for_key  # noqa: E402

PICTURES = EXERCISES / ".headway" / "pictures"
NAMED = 8  # of more parts than this, only some are named


class PictureNotSaved(Exception):
    """The picture; the message is a sentence."""


@dataclass
class Measurement:
    """A walk's numbers, and whose code gave them."""

    numbers: Any
    from_learner: set[str]
    from_reference: tuple[str, ...]
    notes: list[str]  # sentences about what of the learner's could not be used


def run_walk(name: str, seed: int, pace: bool, out: Path | None) -> None:
    """The whole walk. NotHere where this handout lacks a part of it; CannotSave, after everything was told, where there is no picture."""
    walk, console = load_available_walk(name), make_console()
    walk_page = WalkPage(console, (lambda: wait_for_key(console)) if pace else lambda: None)
    walk_page.title(f"headway walk {name}")
    walk_page.say((walk.__doc__ or "").partition("\n")[0])
    walk_page.blank()
    status = find_status(walk.REQUIRED_EXERCISES, show_progress)
    measurement = measure(walk, status, seed, show_progress)
    _print_authors(walk_page, measurement, status)
    walk.print_walk(walk_page, measurement.numbers)
    walk_page.end("A picture of it")
    path = _save_picture(walk.draw(measurement.numbers), name, out)
    walk_page.say(f"The picture of this run is in {short_path(path)}")
    walk_page.blank()
    _print_next_step(walk_page, walk, measurement, status)


def load_available_walk(name: str) -> ModuleType:
    """The walk; NotHere where it needs what this handout leaves out."""
    try:
        walk = load(name)
    except ModuleNotFoundError:
        if not is_handout():
            raise
        raise NotInHandout(f"the walk {name} needs chapters that are not in this handout") from None
    here = {exercise.name for exercise in load_syllabus().exercises}
    if gone := [exercise for exercise in walk.REQUIRED_EXERCISES if exercise not in here]:
        others = f" and {len(gone) - 1} more exercises" if len(gone) > 1 else ""
        raise NotInHandout(f"the walk {name} needs {gone[0]}{others}, which {'are' if others else 'is'} not in this handout")
    return walk


def measure(walk: ModuleType, status: ExerciseStatus, seed: int, report_progress: ProgressReporter) -> Measurement:
    """The walk's numbers by the learner's code where it passes. What raises here all the same is replaced by ours, and said."""
    passed, notes = set(status.passed), []
    while True:
        parts = Parts(walk.REQUIRED_EXERCISES, passed)
        notes += [f"{why}; so all of that chapter is ours here." for why in parts.broken.values()]
        passed = set(parts.from_learner)
        random.seed(seed)
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        try:
            with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():  # a print left in an exercise is no part of the tour
                warnings.simplefilter("ignore")
                numbers = walk.measure(parts, seed, report_progress)
            return Measurement(numbers, set(parts.from_learner), parts.from_reference, notes)
        except KeyboardInterrupt:
            raise
        except BaseException as trouble:
            if not parts.from_learner:
                raise
            culprit = parts.find_raising_exercise(trouble)
            what = f"{type(trouble).__name__}: {trouble}".split("\n")[0][:120]
            if culprit:
                notes.append(f"Your {culprit} passes its tests, and yet raised {what} here; ours takes its place.")
                passed.discard(culprit)
            else:
                notes.append(f"Something of yours passes its tests, and yet this walk does not work with it ({what}); all of it is ours from here on.")
                passed = set()
        finally:
            parts.close()


def _print_authors(walk_page: WalkPage, measurement: Measurement, status: ExerciseStatus) -> None:
    """Which parts are the learner's, in a sentence or two."""
    from_learner, from_reference = [name for name in _in_course_order(measurement) if name in measurement.from_learner], list(measurement.from_reference)
    count = len(from_learner) + len(from_reference)
    if not from_reference:
        walk_page.say(f"All of it is your code: {count} exercises, and each passes its tests.", style="green")
    elif not from_learner:
        walk_page.say(f"None of the {count} exercises in it passes yet, so what you see runs on our code. It is the same machine that you are building.")
    elif len(from_learner) <= len(from_reference):
        walk_page.say(f"Yours: {_join_names(from_learner)}. The other {len(from_reference)} parts are ours.", style="green")
    else:
        walk_page.say(f"Ours: {_join_names(from_reference)}. The other {len(from_learner)} parts are your code.", style="green")
    if failing := [name for name in status.failing if name in from_reference]:
        is_one = len(failing) == 1
        walk_page.say(f"{_join_names(failing)} {'is' if is_one else 'are'} written and {'does' if is_one else 'do'} not pass {'its' if is_one else 'their'} tests yet.")
    if status.untested:
        walk_page.say(f"The tests of {_join_names(status.untested)} could not be run; `headway check {status.untested[0]}` says why.")
    for module, why in status.broken.items():
        walk_page.say(f"{module}.py counts as not written yet: {why.removesuffix('.')}.")
    for note in measurement.notes:
        walk_page.say(note)


def _in_course_order(measurement: Measurement) -> list[str]:
    """All that the walk needs, the learner's and ours, in the order of the course."""
    wanted = measurement.from_learner | set(measurement.from_reference)
    return [exercise.name for exercise in load_syllabus().exercises if exercise.name in wanted]


def _join_names(names: list[str]) -> str:
    if len(names) > NAMED:
        return ", ".join(names[: NAMED - 1]) + f" and {len(names) - NAMED + 1} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _save_picture(svg: str, name: str, out: Path | None) -> Path:
    path = out or PICTURES / f"{module_name(name).replace('_', '-')}.svg"
    try:
        write_whole(path, svg)
    except OSError as error:
        raise PictureNotSaved(f"the picture is not saved: {problem(error, f'write {short_path(path)}')}") from None
    return path


def _print_next_step(walk_page: WalkPage, walk: ModuleType, measurement: Measurement, status: ExerciseStatus) -> None:
    """What to try: the first exercise of this walk that is not the learner's, and what the walk itself proposes."""
    undone = [name for name in _in_course_order(measurement) if name in measurement.from_reference]
    walk_page.say(walk.NEXT_STEP)
    if undone:
        walk_page.say(f"The first part of this walk that is not yours yet is {undone[0]}:")
        walk_page.command(f"headway check {undone[0]}")
    sys.stdout.flush()
