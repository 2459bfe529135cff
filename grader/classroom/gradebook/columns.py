"""Converts values to and from the gradebook's columns. Reading checks the type of every value; a wrong type means that the file is damaged."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from sys import intern
from typing import Any

from grader.classroom import sanitize
from grader.course.syllabus import Exercise
from grader.verdict.results import OUTCOMES, Diagnosis, ExerciseResult, Failure, TestResult

# Exceptions that parsing raises when a column does not contain what was written.
DAMAGE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


def require_texts(columns: Sequence[Any]) -> Sequence[str]:
    if not all(type(column) is str for column in columns):
        raise TypeError("a text column contains another type")
    return columns


def parse_names(column: str) -> list[str]:
    found = json.loads(column)
    if type(found) is not list:
        raise TypeError("a column of names does not contain a list")
    require_texts(found)
    return found


def parse_versions(column: str) -> dict[str, str]:
    found = json.loads(column)
    require_texts(list(found.values()))
    return found


def parse_failures(column: str) -> dict[str, dict[str, Any]]:
    """The fields of a Failure for each chapter that does not import."""
    found = json.loads(column)
    if not all(type(entry) is dict for entry in found.values()):
        raise TypeError("a column of failures contains another type")
    return found


def make_row(result: ExerciseResult) -> tuple:
    """The row of a result, without empty fields and without seconds: measured times would make equal results differ."""
    tests = [_without_empty(vars(test) | {"seconds": 0, "details": _without_empty(vars(test.details)) if test.details else None}) for test in result.tests]
    diagnosis = asdict(result.diagnosis) if result.diagnosis else None
    return (result.exercise.name, result.outcome, to_json(tests), to_json(diagnosis), to_json(result.forbidden), int(result.partial), result.missing_weight)


def parse_result(exercise: Exercise, tests: str, diagnosis: str, forbidden: str, partial: int, missing_weight: float) -> ExerciseResult:
    """The result, sanitized so that it can be displayed anywhere."""
    fields = json.loads(diagnosis)
    parsed = [_parse_test(entry) for entry in json.loads(tests)]
    known = Diagnosis.from_data(fields) if fields else None
    return sanitize.result(ExerciseResult(exercise, parsed, known, parse_names(forbidden), bool(partial), _require_weight(missing_weight)))


def to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=True, sort_keys=True)


def to_storable(words: str) -> str:
    """Text that SQLite can store: a file name may contain bytes that are not valid text."""
    return words.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def _without_empty(values: dict) -> dict:
    return {name: value for name, value in values.items() if value or name == "promise"}


def _parse_test(entry: dict) -> TestResult:
    repeated = {name: intern(entry[name]) for name in ("name", "outcome", "promise")}  # most submissions repeat these texts
    if repeated["outcome"] not in OUTCOMES:
        raise ValueError("unknown outcome")
    details = Failure(**entry["details"]) if "details" in entry else None
    return TestResult(**{"weight": 0.0} | entry | repeated | {"seconds": 0.0, "details": details, "weight": _require_weight(entry.get("weight", 0.0))})


def _require_weight(value: float) -> float:
    if type(value) not in (int, float) or not 0 <= value < math.inf:
        raise ValueError("invalid weight")
    return value
