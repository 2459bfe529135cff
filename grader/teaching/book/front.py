"""What the front page has from chapter 0: the diagram, what a reader needs, and how long each chapter takes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from grader.course.source import read_source
from grader.course.syllabus import EXERCISES

LESSON = "ch00_big_picture"
_ROW = re.compile(r"^\| (\d+) \[.*\| *([\d.]+) *\|$", re.MULTILINE)
_DIAGRAM = re.compile(r"^!\[[^\]]*\]\(pictures/ch00_\w+\.svg\)$", re.MULTILINE)
_NEEDS = re.compile(r"^## What you need\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Introduction:
    """Parts of chapter 0: `diagram` and `needs` are Markdown, `hours` has the hours by chapter number."""

    diagram: str = ""
    needs: str = ""
    hours: dict[int, float] = field(default_factory=dict)


def read_introduction() -> Introduction:
    """Return what chapter 0 says; all parts are empty where the lesson is missing."""
    path = EXERCISES / f"{LESSON}.md"
    text = read_source(path) if path.is_file() else ""
    diagram, needs = _DIAGRAM.search(text), _NEEDS.search(text)
    return Introduction(
        diagram[0] if diagram else "",
        needs[1].strip() if needs else "",
        {int(number): float(hours) for number, hours in _ROW.findall(text)},
    )
