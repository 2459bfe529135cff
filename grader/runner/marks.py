"""The mark that ties a graded test to its exercise."""

from __future__ import annotations

import pytest


def exercise(name: str, weight: float = 1.0):
    """Mark a test of exercise `name`; `weight` is its weight among the tests that share the exercise's points."""
    return pytest.mark.exercise(name, weight=weight)
