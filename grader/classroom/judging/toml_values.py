"""Reads an instructor's TOML file and the values in it.

Each problem is a GradingProblem, one sentence that begins with the key.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

from grader.classroom.intake.problems import GradingProblem, describe_error
from grader.classroom.sanitize import shorten

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
    if not 1980 < value.year < 2200:
        raise GradingProblem(f"{key}: {value.isoformat()} is in an unlikely year; check the date")
    if value.tzinfo is None:
        example = f"{value.isoformat(timespec='seconds')}+01:00"
        raise GradingProblem(f"{key}: {value.isoformat()} has no time zone; write it like {example}")
    return value


def parse_span(key: str, value: object) -> timedelta:
    found = re.fullmatch(r"\s*(\d{1,5})\s*([mhd])\s*", value) if isinstance(value, str) else None
    if not found:
        raise GradingProblem(f'{key}: {show_value(value)} is not a duration; write it like "15m", "2h" or "1d"')
    return timedelta(minutes=int(found[1]) * UNIT_MINUTES[found[2]])


def parse_days(key: str, value: object) -> int:
    if type(value) is not int or not 0 <= value <= 10_000:
        raise GradingProblem(f"{key}: {show_value(value)} is not a whole number of days")
    return value


def suggest(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: the most similar one; "" if there is none."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {shorten(near[0])}?" if near else ""


def show_value(value: object) -> str:
    try:
        if isinstance(value, bool):
            return str(value).lower()
        return shorten(repr(value) if isinstance(value, str | int | float) else str(value))
    except ValueError:  # Python refuses to print numbers of more than 4300 digits
        return "a number with thousands of digits"
