"""An instructor's rules, as course.toml has them: points, due date, deductions for lateness, extensions."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

from grader.classroom.intake.submissions import GradingProblem, Submission, describe_error
from grader.classroom.intake.tables import checked_time
from grader.classroom.judging.marks import CENT, format_points, split_points
from grader.classroom.sanitize import shorten
from grader.counts import format_count
from grader.course.syllabus import Chapter, Exercise, Syllabus, UnknownName
from grader.own_tests.own_file import module_of_tests

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
    hidden: frozenset[str] = frozenset()  # exercises whose tests learners do not have
    own_tests: bool = False  # the learners' own tests of the exercises are graded, not the exercises
    # The people of the roster who are not among these.
    find_missing: Callable[[Sequence[str]], Sequence[str]] = field(default=lambda names: (), compare=False)

    @property
    def has_deductions(self) -> bool:
        """Whether a late submission loses points."""
        return bool(self.per_day) or self.last is not None

    def points_of(self, exercise: Exercise) -> float:
        """What this exercise is worth."""
        return float(self.points.get(exercise.name, Decimal(str(exercise.points))))

    def module_of(self, exercise: Exercise) -> str:
        """The name, without .py, of the file that is handed in for this exercise."""
        return module_of_tests(exercise) if self.own_tests else exercise.module

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
        return self._deduct(days, f"{format_count(days, 'day')} late ({times})")

    def _deduct(self, days: int, delay: str) -> Lateness:
        """What so many started days cost; `delay` begins the sentence."""
        if self.last is not None and days > self.last:
            limit = f"more than {format_count(self.last, 'day')} late"
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


# ---- the values of an instructor's TOML file: each problem is a GradingProblem, one sentence that begins with the key


UNIT_MINUTES = {"m": 1, "h": 60, "d": 1440}
LARGEST = 1_000_000  # bytes of a file; points of an exercise
_PLACE = re.compile(r"(.*?) \(at (?:line (\d+), column \d+|end of document)\)", re.DOTALL)


def read_toml(path: Path) -> dict:
    """The tables in this file. GradingProblem if they cannot be read."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            limit = f"{LARGEST // 1_000_000} MB, which is too large for a course"
            raise GradingProblem(f"{path.name} is larger than {limit}")
        return tomllib.loads(data.decode("utf-8-sig"))
    except GradingProblem:
        raise
    except OSError as error:
        raise GradingProblem(f"{path} cannot be read: {describe_error(error)}") from None
    except UnicodeDecodeError:
        raise GradingProblem(f"{path.name} is not valid UTF-8; save it as UTF-8") from None
    except RecursionError:
        raise GradingProblem(f"{path.name} is nested too deeply to be read") from None
    except ValueError as error:  # a number of thousands of digits is one, too
        raise GradingProblem(_describe_toml_error(path.name, str(error))) from None


def _describe_toml_error(file: str, message: str) -> str:
    placed = _PLACE.fullmatch(message)
    problem, line = (placed[1], placed[2]) if placed else (message, None)
    where = f"{file}, line {line}" if line else file
    if problem.startswith("Cannot declare"):  # tomllib writes the keys of a table as a Python tuple
        table = ".".join(key or other for key, other in re.findall(r"'([^']*)'|\"([^\"]*)\"", problem))
        return f"{where}: the table [{table}] is there twice; put its keys into one table"
    if problem.startswith("Illegal character '\\n'"):
        return f"{where}: a text is not closed with a quote"
    if problem.startswith(("Cannot mutate", "Cannot redefine", "Cannot overwrite")):
        return f"{where}: this key or table has a value already; keep one of the two"
    return f"{where}: this is not valid TOML: {problem[:1].lower()}{problem[1:]}"


def parse_number(key: str, value: object, what: str, most: int) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise GradingProblem(f"{key}: {show_value(value)} is not {what}")
    number = Decimal(value) if isinstance(value, int) else Decimal(str(value))
    if not number.is_finite() or not 0 <= number <= most:
        raise GradingProblem(f"{key}: {show_value(value)} is not {what} from 0 to {most}")
    return number


def parse_time_value(key: str, value: object) -> datetime:
    if not isinstance(value, datetime):
        advice = "write it without quotes, like 2026-12-01T23:59:00+01:00"
        raise GradingProblem(f"{key}: {show_value(value)} is not a time; {advice}")
    try:
        return checked_time(value, value.isoformat())
    except ValueError as problem:
        raise GradingProblem(f"{key}: {problem}") from None


def parse_span(key: str, value: object) -> timedelta:
    found = re.fullmatch(r"\s*(\d{1,5})\s*([mhd])\s*", value) if isinstance(value, str) else None
    if not found:
        raise GradingProblem(f'{key}: {show_value(value)} is not a duration; write it like "15m", "2h" or "1d"')
    return timedelta(minutes=int(found[1]) * UNIT_MINUTES[found[2]])


def parse_days(key: str, value: object) -> int:
    if type(value) is not int or not 0 <= value <= 10_000:
        raise GradingProblem(f"{key}: {show_value(value)} is not a whole number of days")
    return value


def suggest(name: str, known: Iterable[str], alike: float = 0.5) -> str:
    """The end of a sentence about an unknown name: the most similar one; "" if there is none."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=alike)
    return f"; did you mean {shorten(near[0])}?" if near else ""


def show_value(value: object) -> str:
    try:
        if isinstance(value, bool):
            return str(value).lower()
        return shorten(repr(value) if isinstance(value, str | int | float) else str(value))
    except ValueError:  # Python refuses to print numbers of more than 4300 digits
        return "a number with thousands of digits"
