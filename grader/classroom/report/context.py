"""What the report says about a class besides its results: the course, the assignment, the roster, and the assignment before."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction

from grader.classroom.gradebook import sqlite_file
from grader.classroom.gradebook.gradebook import Gradebook
from grader.classroom.intake.problems import GradingProblem
from grader.classroom.judging.graded_class import GradedClass, Person
from grader.classroom.term.course_file import Course
from grader.classroom.term.roster import Roster


@dataclass(frozen=True)
class PreviousAssignment:
    """The assignment before this one, and everybody's share of its points, by name."""

    title: str
    shares: dict[str, Fraction]


@dataclass(frozen=True)
class ReportContext:
    """Empty for a class that was graded without a course file."""

    course: str = ""
    assignment: str = ""
    due: datetime | None = None
    roster: Roster = field(default_factory=Roster)
    previous: PreviousAssignment | None = None


NO_CONTEXT = ReportContext()


def read_context(course: Course | None, name: str) -> tuple[ReportContext, list[str]]:
    """The context of this assignment, and sentences for the instructor about what cannot be read."""
    if course is None:
        return NO_CONTEXT, []
    assignment = course.assignment(name)
    previous, notes = _read_previous(course, name)
    return ReportContext(course.title or course.path.parent.name, assignment.title, assignment.rules.due, course.roster, previous), notes


def _read_previous(course: Course, name: str) -> tuple[PreviousAssignment | None, list[str]]:
    """The last graded one of the assignments that course.toml has above this one."""
    names = [one.name for one in course.assignments]
    for earlier in reversed(names[: names.index(name)]):
        folder = course.folder(earlier)
        if (folder / sqlite_file.NAME).is_file():
            assignment = course.assignment(earlier)
            try:
                with Gradebook.read(folder) as book:
                    graded = book.graded_class(assignment.rules)
            except GradingProblem as problem:
                return None, [f"the report does not compare with {earlier}: {problem}"]
            return PreviousAssignment(assignment.title, compute_shares(graded)), []
    return None, []


def compute_shares(graded: GradedClass) -> dict[str, Fraction]:
    """The share of the points that each graded person earned."""
    return {person.name: compute_share(person) for person in graded.people if not person.problem}


def compute_share(person: Person) -> Fraction:
    """The share of the points that this person earned, from 0 to 1, before the deduction for lateness."""
    points = sum(Fraction(mark.points) for mark in person.marks.values())
    return sum(Fraction(mark.earned) for mark in person.marks.values()) / points if points else Fraction(0)
