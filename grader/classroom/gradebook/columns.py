"""What the gradebook's columns hold: written, and read with every value of the kind that was written; anything else is damage."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from sys import intern
from typing import Any

from grader.classroom import sanitize
from grader.course.syllabus import Exercise
from grader.verdict.results import OUTCOMES, Diagnosis, ExerciseResult, Failure, TestResult

# What reading something else than what was written raises.
DAMAGE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


def texts(columns: Sequence[Any]) -> Sequence[str]:
    if not all(type(column) is str for column in columns):
        raise TypeError("a column of text holds something else")
    return columns


def names(column: str) -> list[str]:
    found = json.loads(column)
    if type(found) is not list:
        raise TypeError("a list of names is none")
    texts(found)
    return found


def words(column: str) -> dict[str, str]:
    found = json.loads(column)
    texts(list(found.values()))
    return found


def failures(column: str) -> dict[str, dict[str, Any]]:
    """Of each chapter that does not import, the fields of its Failure."""
    found = json.loads(column)
    if not all(type(entry) is dict for entry in found.values()):
        raise TypeError("a failure is none")
    return found


def row(result: ExerciseResult) -> tuple:
    """Without seconds, for what a clock measured is no finding; and without what is empty."""
    tests = [_filled(vars(test) | {"seconds": 0, "details": _filled(vars(test.details)) if test.details else None}) for test in result.tests]
    diagnosis = vars(result.diagnosis) if result.diagnosis else None
    return (result.exercise.name, result.outcome, written(tests), written(diagnosis), written(result.forbidden), int(result.partial), result.missing_weight)


def result(exercise: Exercise, tests: str, diagnosis: str, forbidden: str, partial: int, missing_weight: float) -> ExerciseResult:
    """Harmless to show."""
    known = json.loads(diagnosis)
    entries = [_test(entry) for entry in json.loads(tests)]
    return sanitize.result(ExerciseResult(exercise, entries, Diagnosis(**known) if known else None, names(forbidden), bool(partial), _weight(missing_weight)))


def written(value: object) -> str:
    return json.dumps(value, ensure_ascii=True, sort_keys=True)


def _filled(values: dict) -> dict:
    return {name: value for name, value in values.items() if value or name == "promise"}


def _test(entry: dict) -> TestResult:
    alike = {name: intern(entry[name]) for name in ("name", "outcome", "promise")}  # the same in submission after submission
    if alike["outcome"] not in OUTCOMES:
        raise ValueError("there is no such outcome")
    details = Failure(**entry["details"]) if "details" in entry else None
    return TestResult(**{"weight": 0.0} | entry | alike | {"seconds": 0.0, "details": details, "weight": _weight(entry.get("weight", 0.0))})


def _weight(value: float) -> float:
    if type(value) not in (int, float) or not 0 <= value < math.inf:
        raise ValueError("a weight is none")
    return value
