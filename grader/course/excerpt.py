"""Why a chapter is not valid Python: the problem, its line, and a caret below the place."""

from __future__ import annotations

import unicodedata
from pathlib import Path

from grader.course.source import SourceProblem, parse, read_source, split_lines

MAX_LINE_CHARACTERS = 100  # of a longer line, the part around the place is shown


def find_problem(file: Path) -> SourceProblem | None:
    """Why this file is not valid Python at the moment; None if it is."""
    try:
        text = read_source(file)
        if not text.strip():
            return SourceProblem(f"{file.name} is empty", file=file.name)
        parse(text, file.name)
    except SourceProblem as problem:
        return problem
    return None


def excerpt_of(file: Path, problem: SourceProblem) -> list[str]:
    try:
        return excerpt(read_source(file), problem)
    except SourceProblem:
        return []


def excerpt(text: str, problem: SourceProblem) -> list[str]:
    """The problem's line with its number, the line above it, and a caret; empty if the text has no such line."""
    lines = [line.rstrip("\r\n").replace("\t", " ").replace("\f", " ") for line in split_lines(text)]
    if problem.line is None or not 1 <= problem.line <= len(lines):
        return []
    column, code = problem.column or 1, lines[problem.line - 1]
    cut = max(0, column - MAX_LINE_CHARACTERS // 2) if len(code) > MAX_LINE_CHARACTERS else 0
    numbered = [(problem.line, code[cut : cut + MAX_LINE_CHARACTERS])]
    if problem.line > 1 and lines[problem.line - 2].strip() and not cut:
        numbered.insert(0, (problem.line - 1, lines[problem.line - 2][:MAX_LINE_CHARACTERS]))
    shown = [f"{number:>5} | {line}".rstrip() for number, line in numbered]
    if problem.column is not None and problem.column <= len(code) + 1:
        shown.append(" " * 8 + " " * _width(code[cut : column - 1]) + "^" * max(1, problem.width))
    return shown


def _width(text: str) -> int:
    """The columns that a text takes on a terminal."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
