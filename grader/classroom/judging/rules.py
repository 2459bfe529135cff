"""Reads an instructor's rules (points, due date, deductions for lateness, extensions) from a TOML file:

[points]
softmax = 20        # an exercise
ch05 = 50           # a chapter: divided among its exercises in the course's proportions, except those named here

[late]
due = 2026-12-01T23:59:00+01:00
grace = "15m"       # submissions this much after the due date are still on time
per_day = 10        # percent of the points earned that each started day after the due date costs
most = 50           # the largest deduction in percent
last = 7            # days after which a submission gets 0 points

[extensions]
"Alpha One" = 2026-12-03T23:59:00+01:00
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

from grader.classroom.intake.problems import GradingProblem
from grader.classroom.intake.submissions import Submission
from grader.classroom.judging.scoring import CENT, format_points, split_points
from grader.classroom.judging.toml_values import (
    LARGEST,
    UNIT_MINUTES,
    parse_days,
    parse_number,
    parse_span,
    parse_time_value,
    read_toml,
    show_value,
    suggest,
)
from grader.classroom.sanitize import shorten
from grader.course.syllabus import Chapter, Exercise, Syllabus, UnknownName, load_syllabus

TABLES = ("points", "late", "extensions")
LATE_KEYS = ("due", "grace", "per_day", "most", "last")
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


def read_rules(path: Path, needs_due: bool = True) -> Rules:
    """The rules in this file. GradingProblem, with the key, if a value is invalid.

    Without `needs_due` another place has the due date.
    """
    path = Path(path)
    tables, _ = read_toml(path, "rules")
    try:
        return _parse_rules(tables, load_syllabus(), needs_due)
    except GradingProblem as problem:
        raise GradingProblem(f"{path.name}, {problem}") from None


def format_rules(rules: Rules) -> str:
    """The rules as the text of a file that `read_rules` reads."""
    lines = [f"{exercise} = {format(points, 'f')}" for exercise, points in rules.points.items()]
    lines = ["[points]", *lines, "", "[late]"]
    lines += [f"due = {rules.due.isoformat()}"] if rules.due else []
    minutes = int(rules.grace.total_seconds() // 60)
    lines += [f'grace = "{minutes}m"' if minutes < 100_000 else f'grace = "{-(-minutes // UNIT_MINUTES["d"])}d"']
    lines += [f"per_day = {format(rules.per_day, 'f')}", f"most = {format(rules.most, 'f')}"]
    lines += [f"last = {rules.last}"] if rules.last is not None else []
    extended = [f"{_quote(name)} = {until.isoformat()}" for name, until in rules.extensions.items()]
    return "\n".join([*lines, "", "[extensions]", *extended, ""])


def _quote(name: str) -> str:
    return json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f")


def _parse_rules(tables: dict, syllabus: Syllabus, needs_due: bool) -> Rules:
    for name, table in tables.items():
        if name not in TABLES:
            hint = suggest(name, TABLES) or "; the tables are [points], [late] and [extensions]"
            raise GradingProblem(f"[{shorten(name)}]: this table is unknown{hint}")
        if not isinstance(table, dict):
            raise GradingProblem(f"{name}: this must be a table; write [{name}] and put its keys below")
    late = tables.get("late", {})
    for key in late:
        if key not in LATE_KEYS:
            hint = suggest(key, LATE_KEYS) or f"; the keys are {', '.join(LATE_KEYS)}"
            raise GradingProblem(f"[late] {shorten(key)}: this key is unknown{hint}")
    due = parse_time_value("[late] due", late["due"]) if "due" in late else None
    if needs_due and due is None and (late or tables.get("extensions")):
        raise GradingProblem("[late] due is missing; add the due date")
    extensions = {}
    for name, value in tables.get("extensions", {}).items():
        key = f"[extensions] {shorten(name)!r}"
        extensions[name] = until = parse_time_value(key, value)
        if due and until < due:
            raise GradingProblem(f"{key}: {until.isoformat(' ', 'minutes')} is before the general due date")
    return Rules(
        points=parse_points(tables.get("points", {}), syllabus),
        due=due,
        grace=parse_span("[late] grace", late.get("grace", "0m")),
        per_day=parse_number("[late] per_day", late.get("per_day", 0), "a percentage", 100),
        most=parse_number("[late] most", late.get("most", 100), "a percentage", 100),
        last=parse_days("[late] last", late["last"]) if "last" in late else None,
        extensions=extensions,
    )


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
