"""A graded class as plain data, from which the exports and the report are made."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

from grader.course.syllabus import Exercise
from grader.verdict.results import ExerciseResult, Failure


@dataclass(frozen=True)
class Mark:
    """The points of one exercise under the instructor's rules, and the points earned; exact to the cent."""

    earned: Decimal
    points: Decimal


@dataclass(frozen=True)
class GivenPoints:
    """The points of one exercise that the instructor gave, and those of the verdict."""

    points: Decimal
    of_verdict: Decimal
    because: str
    date: str  # 2026-12-01


@dataclass(frozen=True)
class Person:
    """One graded submission. If it could not be graded, `problem` is a sentence and there are no results.

    `missing` is for a person of the roster who submitted nothing.
    """

    name: str
    slug: str  # a file name on any system, unique in this class
    digest: str  # of the submitted content
    problem: str = ""
    notes: tuple[str, ...] = ()
    submitted: str = ""  # ISO, if known, in the time zone of the due date
    is_untimed: bool = False  # its time is unknown, so it counts as on time
    results: tuple[ExerciseResult, ...] = ()  # in the course's order; `details` is what a learner sees of a failed test
    broken: dict[str, Failure] = field(default_factory=dict)  # chapters that do not import
    marks: dict[str, Mark] = field(default_factory=dict)  # by exercise, without any deduction for lateness
    given: dict[str, GivenPoints] = field(default_factory=dict)  # by exercise, where the instructor gave the points
    late: str = ""  # a sentence, if it is late
    total: Mark = Mark(Decimal(0), Decimal(0))  # with the deduction for lateness
    missing: bool = False
    waiting: bool = False  # the grader has no verdict yet, so nothing about this submission counts; `problem` says why


@dataclass(frozen=True)
class GradedClass:
    people: tuple[Person, ...]  # by name; a missing one only with points of the instructor
    exercises: tuple[Exercise, ...]  # the graded ones, in the course's order
    seed: int
    versions: dict[str, str]  # of what the marks depend on: kit, torch, Python, ...
    missing: tuple[Person, ...] = ()  # the other missing people of the roster

    @property
    def points(self) -> Decimal:
        return max((person.total.points for person in self.people), default=Decimal(0))
