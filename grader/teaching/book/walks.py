"""The walks of `headway walk`, for the book: what each shows, and the exercises whose code runs in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from grader.course.syllabus import Exercise
from grader.teaching.walks import list_walks, load


@dataclass(frozen=True)
class Walk:
    name: str
    title: str
    needs: tuple[Exercise, ...]  # in the order of the course

    @property
    def chapter(self) -> str:
        """The last chapter that it needs: after it, the whole walk can run on the reader's code."""
        return self.needs[-1].chapter


def walks(exercises: Mapping[str, Exercise]) -> list[Walk]:
    """Return the walks whose exercises are all available: a handout may leave some out."""
    found = []
    for name, title in list_walks().items():
        try:
            needed = set(load(name).REQUIRED_EXERCISES)
        except ModuleNotFoundError:  # of a chapter that is not in this handout
            continue
        if needed <= exercises.keys():
            found.append(Walk(name, title, tuple(exercise for exercise in exercises.values() if exercise.name in needed)))
    return found
