"""All uses of pytest's private interfaces, besides capture.py. Nothing else in the kit imports from `_pytest` or uses a
private attribute of its objects.

Tried with pytest 8.0.0 and 9.2.0; `pyproject.toml` excludes pytest 10 until it has been tried. Each function says what
it relies on.

PYTEST_DONT_REWRITE: it may be imported before pytest's second start (early.py), which would warn that it is too late to
rewrite it.
"""

from __future__ import annotations

import sys

import pytest


def remove_import_hooks() -> None:
    """Remove what pytest's start has added to `sys.meta_path`: `_pytest.assertion.rewrite.AssertionRewritingHook`."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not type(finder).__module__.startswith("_pytest.")]


def width_of(reporter: pytest.TerminalReporter) -> int:
    """The number of columns that the reporter writes: `TerminalReporter._tw`."""
    return reporter._tw.fullwidth
