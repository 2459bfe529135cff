"""The mark that ties a graded test to its exercise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

Test = TypeVar("Test", bound=Callable[..., Any])


@dataclass(frozen=True)
class Mark:
    exercise: str
    weight: float  # among the tests that share the exercise's points


def exercise(name: str, weight: float = 1.0) -> Callable[[Test], Test]:
    """Mark a test of exercise `name`; `weight` is its weight among the tests that share the exercise's points."""

    def mark(test: Test) -> Test:
        test.graded = Mark(name, float(weight))  # type: ignore[attr-defined]
        return test

    return mark


def mark_of(test: object) -> Mark | None:
    """The mark of a graded test; None for any other."""
    return getattr(test, "graded", None)
