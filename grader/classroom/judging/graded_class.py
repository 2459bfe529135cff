"""A graded class as plain data: what the gradebook keeps, and what every export and the report are made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

from grader.course.syllabus import Exercise
from grader.verdict.results import ExerciseResult, Failure


@dataclass(frozen=True)
class Mark:
    """What one exercise is worth to this instructor, and what was earned of it: exact to the cent."""

    earned: Decimal
    points: Decimal


@dataclass(frozen=True)
class Person:
    """One submission, graded. `problem` is a sentence where nothing could be; then there are no results."""

    name: str
    slug: str  # a file name on any system, unique in this class
    digest: str  # of what was submitted
    problem: str = ""
    notes: tuple[str, ...] = ()
    submitted: str = ""  # ISO, where known
    results: tuple[ExerciseResult, ...] = ()  # in the course's order; `details` of each failed test as a learner sees them
    broken: dict[str, Failure] = field(default_factory=dict)  # chapters that do not import
    marks: dict[str, Mark] = field(default_factory=dict)  # exercise -> before any lateness
    late: str = ""  # a sentence, where something is taken off
    total: Mark = Mark(Decimal(0), Decimal(0))  # after lateness


@dataclass(frozen=True)
class GradedClass:
    people: tuple[Person, ...]  # by name
    exercises: tuple[Exercise, ...]  # those graded, in the course's order
    seed: int
    versions: dict[str, str]  # kit, torch, python: what the marks depend on

    @property
    def points(self) -> Decimal:
        return max((person.total.points for person in self.people), default=Decimal(0))
