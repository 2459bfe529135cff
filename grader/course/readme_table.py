"""The README's table of chapters and exercises, made from the syllabus by `headway stubs`."""

from __future__ import annotations

import re
from pathlib import Path

from grader.course.syllabus import ROOT, load_syllabus
from grader.files import write_whole

README = ROOT / "README.md"
HEADER = "| chapter | what you build |\n| --- | --- |\n"


def write_readme_table(readme: Path = README) -> bool:
    """Write the table into the README; True when that changed it."""
    if not readme.is_file():
        return False
    text = readme.read_text(encoding="utf-8")
    current = with_table(text)
    if current != text:
        write_whole(readme, current)
    return current != text


def check_readme_table(readme: Path = README) -> list[str]:
    """A sentence where the README's table is not that of today's syllabus."""
    text = readme.read_text(encoding="utf-8") if readme.is_file() else ""
    if not text or with_table(text) == text:
        return []
    return ["README.md: the table of chapters is not that of exercises/syllabus.toml; `headway stubs` writes it"]


def with_table(text: str) -> str:
    """The README's text with the table of today's syllabus. ValueError where it has no such table."""
    if HEADER not in text:
        raise ValueError(f"README.md has no table that begins with {HEADER.splitlines()[0]!r}")
    before, after = text.split(HEADER, 1)
    rows = []
    for chapter in load_syllabus().chapters:
        names = ", ".join(f"`{exercise.name}`" for exercise in chapter.exercises)
        rows.append(f"| {chapter.number} {chapter.title} | {names} |\n")
    return before + HEADER + "".join(rows) + re.sub(r"\A(\|[^\n]*\n)*", "", after)
