"""An instructor's rules, as course.toml has them: points, due date, deductions for lateness, extensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from grader.classroom.intake.problems import GradingProblem
from grader.classroom.intake.submissions import Submission
from grader.classroom.judging.scoring import CENT, format_points, split_points
from grader.classroom.judging.toml_values import LARGEST, parse_number, show_value, suggest
from grader.classroom.sanitize import shorten
from grader.course.syllabus import Chapter, Exercise, Syllabus, UnknownName

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Lateness:
    """How late a submission is, and the factor for its points."""

    days: int = 0  # started days
    factor: Decimal = Decimal(1)
    sentence: str = ""  # "" if there is nothing to say
    is_unknown: bool = False  # it counts as on time because its time is unknown


@dataclass(frozen=True)
class Rules:
    points: dict[str, Decimal] = field(default_factory=dict)  # by exercise, where they differ from the course's
    due: datetime | None = None
    grace: timedelta = timedelta()
    per_day: Decimal = Decimal(0)  # percent of the points earned
    most: Decimal = Decimal(100)  # the largest deduction in percent, up to `last` days
    last: int | None = None  # days; later submissions get 0 points
    extensions: dict[str, datetime] = field(default_factory=dict)  # by the person's name
    # The people of the roster who are not among these.
    find_missing: Callable[[Sequence[str]], Sequence[str]] = field(default=lambda names: (), compare=False)

    @property
    def has_deductions(self) -> bool:
        """Whether a late submission loses points."""
        return bool(self.per_day) or self.last is not None

    def points_of(self, exercise: Exercise) -> float:
        """What this exercise is worth."""
        return float(self.points.get(exercise.name, Decimal(str(exercise.points))))

    def find_due_date(self, name: str) -> datetime | None:
        """When this person's submission is due."""
        return self.extensions.get(name, self.due)

    def find_time(self, submission: Submission) -> datetime | None:
        """The time of this submission, in the time zone of its due date."""
        due, when = self.find_due_date(submission.name), submission.submitted
        return when.astimezone(due.tzinfo) if due and when else when

    def compute_lateness(self, submission: Submission) -> Lateness:
        """How late this submission is. One without a known time counts as on time."""
        due, when = self.find_due_date(submission.name), self.find_time(submission)
        if due is None:
            return Lateness()
        if when is None:
            return Lateness(is_unknown=not submission.problem)
        over = when - due
        if over <= self.grace:
            return Lateness()
        days = -(-over // DAY)
        times = f"submitted {when:%Y-%m-%d %H:%M}, due {due:%Y-%m-%d %H:%M}"
        return self._deduct(days, f"{days} day{'s' if days > 1 else ''} late ({times})")

    def _deduct(self, days: int, delay: str) -> Lateness:
        """What so many started days cost; `delay` begins the sentence."""
        if self.last is not None and days > self.last:
            limit = f"more than {self.last} day{'' if self.last == 1 else 's'} late"
            return Lateness(days, Decimal(0), f"{delay}: submissions {limit} get 0 points")
        taken = min(self.per_day * days, self.most)
        if not taken:
            return Lateness(days, Decimal(1), f"{delay}: no points are deducted")
        return Lateness(days, 1 - taken / 100, f"{delay}: {format_points(taken)} % of the points earned are deducted")

    def find_warnings(self, submissions: Sequence[Submission]) -> list[str]:
        """Warnings for the instructor: extensions for unknown names."""
        names = [submission.name for submission in submissions]
        return [
            f"[extensions] {shorten(name)!r}: no submission has this name{suggest(name, names)}"
            for name in sorted(set(self.extensions) - set(names))
        ]


def parse_points(table: dict, syllabus: Syllabus) -> dict[str, Decimal]:
    """Divides a chapter's points in the course's proportions among those of its exercises that are not named."""
    points: dict[str, Decimal] = {}
    chapters: dict[str, tuple[str, Chapter, Decimal]] = {}
    for key, value in table.items():
        worth = parse_number(f"[points] {shorten(key)}", value, "a number of points", LARGEST)
        if worth != worth.quantize(CENT):
            raise GradingProblem(f"[points] {shorten(key)}: {show_value(value)} has more than two decimal places")
        try:
            what = syllabus.find(key)
        except UnknownName as unknown:
            raise GradingProblem(f"[points] {shorten(key)}: {unknown}") from None
        if isinstance(what, Exercise):
            points[what.name] = worth
        elif what.id in chapters:
            raise GradingProblem(f"[points] {shorten(key)}: {what.id} appears twice, also as {chapters[what.id][0]}")
        else:
            chapters[what.id] = (key, what, worth)
    for key, chapter, worth in chapters.values():
        named = [exercise for exercise in chapter.exercises if exercise.name in points]
        rest = [exercise for exercise in chapter.exercises if exercise.name not in points]
        left = worth - sum((points[exercise.name] for exercise in named), Decimal(0))
        if left < 0 or (left and not any(exercise.points for exercise in rest)):
            named_points = format_points(worth - left)
            other = f"the {named_points} points of its exercises in this table"
            raise GradingProblem(f"[points] {shorten(key)}: {format_points(worth)} points do not fit {other}")
        parts = split_points(left, [exercise.points for exercise in rest])
        points |= {exercise.name: part for exercise, part in zip(rest, parts)}
    return points
