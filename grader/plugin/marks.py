"""The mark that ties a graded test to its exercise."""

from __future__ import annotations

import pytest


def exercise(name: str, weight: float = 1.0):
    """This test belongs to exercise `name`, and carries `weight` of its points beside the others."""
    return pytest.mark.exercise(name, weight=weight)
