"""Each person's progress: the share of the points, how much is started, the change since the assignment before, and who may need help."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from grader.classroom.judging.graded_class import GradedClass, Person
from grader.classroom.report.context import ReportContext, compute_share
from grader.classroom.report.tally import classify_all

HALF = Fraction(1, 2)


@dataclass(frozen=True)
class PersonProgress:
    place: int  # the person's number in the class, used for links
    person: Person
    share: Fraction  # of the points, before the deduction for lateness
    started: int  # exercises
    exercises: int
    before: Fraction | None  # the share in the assignment before; None if there is none

    @property
    def change(self) -> int | None:
        """The change in percent of the points, rounded; None if there is nothing to compare with."""
        return None if self.before is None or self.person.problem else round(100 * (self.share - self.before))

    @property
    def is_at_risk(self) -> bool:
        """The rule that the page states: less than half of the points, or fewer than half of the exercises started."""
        return not self.person.problem and (self.share < HALF or Fraction(self.started, max(1, self.exercises)) < HALF)


@dataclass(frozen=True)
class Comparison:
    """The mean share of the people who have both assignments."""

    title: str
    people: int
    before: Fraction
    now: Fraction


def compute_progress(graded: GradedClass, context: ReportContext) -> list[PersonProgress]:
    """Everybody, in the order of the class."""
    before = context.previous.shares if context.previous else {}
    progress = []
    for place, person in enumerate(graded.people, start=1):
        kinds = [] if person.problem else [*classify_all(person, graded.exercises).values()]
        started = len(kinds) - kinds.count("todo")
        progress.append(PersonProgress(place, person, compute_share(person), started, len(graded.exercises), before.get(person.name)))
    return progress


def compare_with_previous(progress: list[PersonProgress], context: ReportContext) -> Comparison | None:
    both = [(one.before, one.share) for one in progress if one.before is not None and not one.person.problem]
    if context.previous is None or not both:
        return None
    return Comparison(context.previous.title, len(both), sum(old for old, _ in both) / Fraction(len(both)), sum(new for _, new in both) / Fraction(len(both)))


def format_change(change: int | None) -> str:
    """+5, −12, 0; "" for None."""
    return "" if change is None else f"+{change}" if change > 0 else f"−{-change}" if change < 0 else "0"
