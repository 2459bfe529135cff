"""The graded tests that are written in the suites, whether or not a run collects them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from grader.course.source import read_source
from grader.course.syllabus import suites_of

_MARKED = re.compile(r'^@exercise\("(\w+)"(?:, weight=([\d.]+))?\)(?: *#.*)?\n(?:[@#\s)].*\n)*?def (\w+)\(', re.MULTILINE)


@cache
def tests_in(suite: Path) -> dict[str, tuple[str, float]]:
    """The graded tests of one file, each with its exercise and its weight there."""
    return {test: (exercise, float(weight or 1)) for exercise, weight, test in _MARKED.findall(read_source(suite))}


def tests_of(chapter: str) -> dict[str, tuple[str, float]]:
    """The graded tests of a chapter, of all its files."""
    return {test: entry for suite in suites_of(chapter) for test, entry in tests_in(suite).items()}
