"""Which exercise has which picture. It imports neither torch nor a picture: the watch needs it at every verdict."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from grader.course.syllabus import Chapter, Exercise, Syllabus, UnknownName, load_syllabus


@dataclass(frozen=True)
class Subject:
    """What catalog.toml says about one exercise."""

    draw: str
    about: str
    look: str

    @property
    def function(self) -> Callable[[Any], list]:
        """The function that computes the panels of one side."""
        module, _, name = self.draw.partition(".")
        return getattr(import_module(f".kinds.{module}", __package__), name)


_TEXT = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
SUBJECTS = {name: Subject(**fields) for name, fields in tomllib.loads(_TEXT).items()}


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
