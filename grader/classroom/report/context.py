"""What the report says about a class besides its results: the course, the roster, and the assignment before."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from grader.classroom.gradebook.gradebook import Gradebook
from grader.classroom.gradebook.sqlite_file import has_gradebook
from grader.classroom.intake.problems import GradingProblem
from grader.classroom.judging.graded_class import GradedClass, Person
from grader.classroom.report.tally import classify_all
from grader.classroom.term.course import Course
from grader.classroom.term.roster import NO_ROSTER, Roster

HALF = Fraction(1, 2)


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
    roster: Roster = NO_ROSTER
    previous: PreviousAssignment | None = None


NO_CONTEXT = ReportContext()


def read_context(course: Course | None, name: str) -> tuple[ReportContext, list[str]]:
    """The context of this assignment, and sentences for the instructor about what cannot be read."""
    if course is None:
        return NO_CONTEXT, []
    one, previous, notes = course.assignment(name), None, []
    names = [assignment.name for assignment in course.assignments]
    earlier = [other for other in names[: names.index(name)] if has_gradebook(course.folder(other))]
    if earlier:
        before = course.assignment(earlier[-1])
        try:
            with Gradebook.read(course.folder(before.name)) as book:
                graded = book.graded_class(before.rules)
            shares = {person.name: compute_share(person) for person in graded.people if not person.problem}
            previous = PreviousAssignment(before.title, shares)
        except GradingProblem as problem:
            notes.append(f"the report does not compare with {before.name}: {problem}")
    title = course.title or course.path.parent.name
    return ReportContext(title, one.title, one.rules.due, course.roster, previous), notes


def compute_share(person: Person) -> Fraction:
    """The share of the points that this person earned, from 0 to 1, before the deduction for lateness."""
    points = sum(Fraction(mark.points) for mark in person.marks.values())
    return sum(Fraction(mark.earned) for mark in person.marks.values()) / points if points else Fraction(0)


@dataclass(frozen=True)
class PersonProgress:
    place: int  # the person's number in the class, used for links
    person: Person
    share: Fraction  # of the points, before the deduction for lateness
    started: int  # exercises
    exercises: int
    before: Fraction | None  # the share in the assignment before; None in the first

    @property
    def change(self) -> int | None:
        """The change in percent of the points, rounded; None if there is nothing to compare with."""
        return None if self.before is None or self.person.problem else round(100 * (self.share - self.before))

    @property
    def is_at_risk(self) -> bool:
        """The rule that the page states: less than half of the points, or fewer than half of the exercises started."""
        is_behind = self.share < HALF or Fraction(self.started, max(1, self.exercises)) < HALF
        return is_behind and not self.person.problem


def compute_progress(graded: GradedClass, context: ReportContext) -> list[PersonProgress]:
    """Everybody, in the order of the class."""
    before = context.previous.shares if context.previous else {}
    progress = []
    for place, person in enumerate(graded.people, start=1):
        kinds = [] if person.problem else [*classify_all(person, graded.exercises).values()]
        started, share = len(kinds) - kinds.count("todo"), compute_share(person)
        progress.append(PersonProgress(place, person, share, started, len(graded.exercises), before.get(person.name)))
    return progress
