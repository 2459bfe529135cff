"""The marks of a term: for each person the assignments, and the total in percent.

Marks are exact, and rounded once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

from grader.classroom.judging.graded_class import GradedClass, Person
from grader.classroom.judging.scoring import NOTHING, round_to_cent
from grader.classroom.term.course import Course
from grader.classroom.term.roster import RosterPerson


@dataclass(frozen=True)
class AssignmentMark:
    """One person's mark in one assignment. `person` is None if nothing was submitted."""

    points: Decimal
    person: Person | None = None

    @property
    def earned(self) -> Decimal:
        return self.person.total.earned if self.person else NOTHING

    @property
    def is_waiting(self) -> bool:
        """Whether the run that grades it is not finished: then it does not count yet."""
        return self.person is not None and self.person.waiting

    @property
    def share(self) -> Fraction:
        return Fraction(self.earned) / Fraction(self.points) if self.points else Fraction(0)

    @property
    def remark(self) -> str:
        """Why the points are as they are; "" if there is nothing to say."""
        if self.person is None:
            return "missing"
        if self.person.waiting:
            return "not graded yet"
        if self.person.missing:
            return "missing, points given by the instructor"
        if self.person.problem and not self.earned:
            return f"not graded: {self.person.problem}"
        return self.person.late


@dataclass(frozen=True)
class PersonMarks:
    who: RosterPerson
    marks: dict[str, AssignmentMark] = field(default_factory=dict)  # by assignment, the graded ones
    percent: Decimal | None = None  # None if no assignment with a weight is graded

    @property
    def missing(self) -> list[str]:
        return [name for name, mark in self.marks.items() if mark.person is None]


@dataclass(frozen=True)
class TermMarks:
    classes: dict[str, GradedClass]  # of the graded assignments, in the order of the course
    people: tuple[PersonMarks, ...]  # the roster's, then those who are not in it
    notes: tuple[str, ...] = ()


def compute_term_marks(course: Course, classes: Mapping[str, GradedClass], notes: Sequence[str] = ()) -> TermMarks:
    """The marks so far. Assignments, and submissions, that are not graded yet do not count.

    An assignment that a person did not hand in counts as 0 points.
    """
    graded = {one.name: classes[one.name] for one in course.assignments if one.name in classes}
    notes = list(notes)
    found: dict[str, dict[str, Person]] = {person.name: {} for person in course.roster.people}
    for name, one_class in graded.items():
        handed_in = [person for person in one_class.people if not person.missing or person.given]
        for person in sorted(handed_in, key=lambda one: one.name not in found):  # exact names first
            known = course.roster.find(person.name)
            own = found.setdefault(known.name if known else person.name, {})
            if name in own:
                both = f"{own[name].name} and {person.name} are one person in the roster"
                notes.append(f"{name}: {both}; only the first one counts")
            else:
                own[name] = person
        asked = {exercise.name for exercise in course.assignment(name).exercises}
        if asked != {exercise.name for exercise in one_class.exercises}:
            notes.append(f"{name} was graded with other exercises than course.toml has now; grade it again")
    roster = {person.name: person for person in course.roster.people}
    strangers = sorted(found.keys() - roster.keys(), key=str.casefold)
    people = [
        _person(course, roster.get(name) or RosterPerson(name), found[name], graded) for name in [*roster, *strangers]
    ]
    return TermMarks(graded, tuple(people), tuple(notes))


def _person(
    course: Course, who: RosterPerson, found: dict[str, Person], graded: dict[str, GradedClass]
) -> PersonMarks:
    marks = {}
    for assignment, one_class in graded.items():
        person = found.get(assignment)
        marks[assignment] = AssignmentMark(person.total.points if person else one_class.points, person)
    counted = [one for one in course.assignments if one.name in marks and not marks[one.name].is_waiting]
    weights = {one.name: Fraction(one.weight) for one in counted}
    whole = sum(weights.values())
    total = sum((weights[name] * marks[name].share for name in weights), Fraction(0))
    percent = round_to_cent(100 * total / whole) if whole else None
    return PersonMarks(who, marks, percent)
