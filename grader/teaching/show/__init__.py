"""What an exercise computes, as a picture: the learner's result, the reference's result, and the difference.

Here is which exercise has which picture, without torch: the watch needs it at every verdict. A show.toml in
grader/chapters/ has an entry for each exercise that has one, with

    draw     the function of show.py that computes it. It calls one side's implementation, as a test does, and returns
             panels; `panel_makers.py` has helpers. It contains no solution
    about    what it shows, in a line
    look     what to look for, in a sentence

`both_sides.py` runs the function for both sides. `panels.py` has the result as plain data, which `terminal.py` draws as
text; the book draws the reference's.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from grader.chapters import find_files, module_name
from grader.course.syllabus import Chapter, Exercise, Syllabus, UnknownName, load_syllabus


@dataclass(frozen=True)
class Subject:
    """What show.toml of its chapter says about one exercise."""

    module: str
    draw: str
    about: str
    look: str

    @property
    def function(self) -> Callable[[Any], list]:
        """The function that computes the panels of one side."""
        return getattr(import_module(self.module), self.draw)


def _read_subjects() -> Iterator[tuple[str, Subject]]:
    for path in find_files("show.toml"):
        for name, fields in tomllib.loads(path.read_text(encoding="utf-8")).items():
            yield name, Subject(module_name(path), **fields)


SUBJECTS = dict(_read_subjects())  # in the order of the course


def has_picture(name: str) -> bool:
    return name in SUBJECTS


def find_subject(name: str) -> Subject:
    """Return the exercise's picture; raise UnknownName if it has none."""
    if name not in SUBJECTS:
        raise UnknownName(f"{name} has no picture; `headway show` without a name lists the exercises that have one")
    return SUBJECTS[name]


def exercises_with_pictures(course: Syllabus | Chapter | None = None) -> list[Exercise]:
    """Return the exercises that have a picture, in the order of the course."""
    return [exercise for exercise in (course or load_syllabus()).exercises if has_picture(exercise.name)]
