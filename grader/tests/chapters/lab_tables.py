"""The table of a lesson's lab next to what its command prints."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import redirect_stdout

import pytest
from grader.course.syllabus import EXERCISES
from grader.teaching.measurements import run_measurement


def printed(command: str, *options: str) -> str:
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out):
        patch.setenv("COLUMNS", "200")
        run_measurement(command, options)
    return out.getvalue()


def missing_rows(chapter: str, lab: str, command: str, close: Callable[[str, str], bool], *options: str) -> list[list[str]]:
    """The rows of the lab's tables of which no printed line has the same words and numbers that are `close`."""
    text = "".join(path.read_text(encoding="utf-8") for path in EXERCISES.glob(f"{chapter}_*.md"))
    section = text[text.index(f"## Lab {lab}:") :].split("\n## ")[0]
    rows = [line.replace("|", " ").split() for line in section.splitlines() if line.startswith("| ") and "---" not in line]
    lines = [line.split() for line in printed(command, *options).splitlines()]
    assert len(rows) > 5

    def agree(row: list[str], line: list[str]) -> bool:
        return len(row) == len(line) and all(a == b or close(a, b) for a, b in zip(row, line))

    return [row for row in rows if not any(agree(row, line) for line in lines)]


def numbers_in(*words: str) -> list[float] | None:
    """None if one of the words is no number."""
    try:
        return [float(word.strip("%").replace(",", "")) for word in words]
    except ValueError:
        return None


def is_near(said: str, found: str) -> bool:
    """Shares that differ by at most 2 percentage points, or other numbers by at most 0.02: other processors round differently."""
    numbers = numbers_in(said, found)
    return numbers is not None and abs(numbers[0] - numbers[1]) <= (2 if "%" in said else 0.02)
