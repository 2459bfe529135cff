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
from grader.console.page import page  # noqa: E402
from grader.course.status import shown  # noqa: E402
from grader.course.syllabus import EXERCISES, is_handout, load_syllabus  # noqa: E402
from grader.files import problem, write_whole  # noqa: E402
from grader.teaching.walks import load, module_name  # noqa: E402
from grader.teaching.walks.exercise_status import Standing, standing  # noqa: E402
from grader.teaching.walks.parts import NotHere, Parts  # noqa: E402
from grader.teaching.walks.progress_line import Working, aloud  # noqa: E402
from grader.teaching.walks.tour import Tour, wait_for_key  # noqa: E402

PICTURES = EXERCISES / ".headway" / "pictures"
NAMED = 8  # of more parts than this, only some are named


class CannotSave(Exception):
    """The picture; the message is a sentence."""


@dataclass
class Measured:
    """A walk's numbers, and whose code gave them."""

    numbers: Any
    yours: set[str]
    ours: tuple[str, ...]
    notes: list[str]  # sentences about what of the learner's could not be used


def go(name: str, seed: int, pace: bool, out: Path | None) -> None:
    """The whole walk. NotHere where this handout lacks a part of it; CannotSave, after everything was told, where there is no picture."""
    walk, console = fetched(name), page()
    tour = Tour(console, (lambda: wait_for_key(console)) if pace else lambda: None)
    tour.title(f"headway walk {name}")
    tour.say((walk.__doc__ or "").partition("\n")[0])
    tour.blank()
    standing_now = standing(walk.NEEDS, aloud)
    measured = measure(walk, standing_now, seed, aloud)
    _whose(tour, measured, standing_now)
    walk.tell(tour, measured.numbers)
    tour.end("A picture of it")
    path = _save(walk.draw(measured.numbers), name, out)
    tour.say(f"The picture of this run is in {shown(path)}")
    tour.blank()
    _next(tour, walk, measured, standing_now)


def fetched(name: str) -> ModuleType:
    """The walk; NotHere where it needs what this handout leaves out."""
    try:
        walk = load(name)
    except ModuleNotFoundError:
        if not is_handout():
            raise
        raise NotHere(f"the walk {name} needs chapters that are not in this handout") from None
    here = {exercise.name for exercise in load_syllabus().exercises}
    if gone := [exercise for exercise in walk.NEEDS if exercise not in here]:
        others = f" and {len(gone) - 1} more exercises" if len(gone) > 1 else ""
        raise NotHere(f"the walk {name} needs {gone[0]}{others}, which {'are' if others else 'is'} not in this handout")
    return walk


def measure(walk: ModuleType, stand: Standing, seed: int, working: Working) -> Measured:
    """The walk's numbers by the learner's code where it passes. What raises here all the same is replaced by ours, and said."""
    passed, notes = set(stand.passed), []
    while True:
        parts = Parts(walk.NEEDS, passed)
        notes += [f"{why}; so all of that chapter is ours here." for why in parts.broken.values()]
        passed = set(parts.yours)
        random.seed(seed)
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        try:
            with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():  # a print left in an exercise is no part of the tour
                warnings.simplefilter("ignore")
                numbers = walk.measure(parts, seed, working)
            return Measured(numbers, set(parts.yours), parts.ours, notes)
        except KeyboardInterrupt:
            raise
        except BaseException as trouble:
            if not parts.yours:
                raise
            blamed = parts.blamed(trouble)
            what = f"{type(trouble).__name__}: {trouble}".split("\n")[0][:120]
            if blamed:
                notes.append(f"Your {blamed} passes its tests, and yet raised {what} here; ours takes its place.")
                passed.discard(blamed)
            else:
                notes.append(f"Something of yours passes its tests, and yet this walk does not work with it ({what}); all of it is ours from here on.")
                passed = set()
        finally:
            parts.close()


def _whose(tour: Tour, measured: Measured, stand: Standing) -> None:
    """Which parts are the learner's, in a sentence or two."""
    yours, ours = [name for name in _in_order(measured) if name in measured.yours], list(measured.ours)
    count = len(yours) + len(ours)
    if not ours:
        tour.say(f"All of it is your code: {count} exercises, and each passes its tests.", style="green")
    elif not yours:
        tour.say(f"None of the {count} exercises in it passes yet, so what you see runs on our code. It is the same machine that you are building.")
    elif len(yours) <= len(ours):
        tour.say(f"Yours: {_some(yours)}. The other {len(ours)} parts are ours.", style="green")
    else:
        tour.say(f"Ours: {_some(ours)}. The other {len(yours)} parts are your code.", style="green")
    if failing := [name for name in stand.failing if name in ours]:
        is_one = len(failing) == 1
        tour.say(f"{_some(failing)} {'is' if is_one else 'are'} written and {'does' if is_one else 'do'} not pass {'its' if is_one else 'their'} tests yet.")
    if stand.untested:
        tour.say(f"The tests of {_some(stand.untested)} could not be run; `headway check {stand.untested[0]}` says why.")
    for module, why in stand.broken.items():
        tour.say(f"{module}.py counts as not written yet: {why.removesuffix('.')}.")
    for note in measured.notes:
        tour.say(note)


def _in_order(measured: Measured) -> list[str]:
    """All that the walk needs, the learner's and ours, in the order of the course."""
    wanted = measured.yours | set(measured.ours)
    return [exercise.name for exercise in load_syllabus().exercises if exercise.name in wanted]


def _some(names: list[str]) -> str:
    if len(names) > NAMED:
        return ", ".join(names[: NAMED - 1]) + f" and {len(names) - NAMED + 1} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _save(svg: str, name: str, out: Path | None) -> Path:
    path = out or PICTURES / f"{module_name(name).replace('_', '-')}.svg"
    try:
        write_whole(path, svg)
    except OSError as error:
        raise CannotSave(f"the picture is not saved: {problem(error, f'write {shown(path)}')}") from None
    return path


def _next(tour: Tour, walk: ModuleType, measured: Measured, stand: Standing) -> None:
    """What to try: the first exercise of this walk that is not the learner's, and what the walk itself proposes."""
    undone = [name for name in _in_order(measured) if name in measured.ours]
    tour.say(walk.THEN)
    if undone:
        tour.say(f"The first part of this walk that is not yours yet is {undone[0]}:")
        tour.command(f"headway check {undone[0]}")
    sys.stdout.flush()
