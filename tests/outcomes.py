"""Calls whose outcome is judged later: a test asks everything first, and judges afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grader.execution.errors import LearnerError


def recorded(call: Callable[[], Any]) -> Callable[[], Any]:
    """Make the call now; return a function that returns the same value, or raises the same error, each time."""
    try:
        value = call()
    except LearnerError as problem:
        error = problem
    else:
        return lambda: value

    def again() -> Any:
        raise error

    return again
