"""Writes similarity.html, the pairs of a class with their code side by side, and similarity.csv, a row for each pair.

The page fetches nothing; equal classes give equal bytes.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from grader.classroom.exports.csv import format_table, spreadsheet_text
from grader.classroom.exports.text import write_file
from grader.classroom.report.templates import render_template
from grader.classroom.similarity.comparison import AlikeExercise, Comparison, Pair
from grader.classroom.similarity.pieces import Piece, Run, number_runs
from grader.classroom.similarity.tokens import Token, find_definitions, fixed_names, read_tokens
from grader.course.source import parse, split_lines

PAGE_NAME, TABLE_NAME = "similarity.html", "similarity.csv"
MAX_LINES = 200  # of one exercise
MAX_SHOWN_PAIRS = 40  # side by side
MAX_SHOWN_EXERCISES = 8  # of one pair side by side
NAMES_AT_ONCE = 12  # in one sentence
COLUMNS = [
    "person", "other person", "percent", "alike exercises", "compared exercises", "alike lines", "identical files",
    "exercises",
]  # fmt: skip


def write_table(comparison: Comparison, folder: Path) -> Path:
    """Write similarity.csv into `folder`. GradingProblem if that is not possible."""
    rows = [COLUMNS]
    for pair in comparison.pairs:
        exercises = " ".join(f"{one.name or one.module + ' (other code)'}:{one.percent}" for one in pair.alike)
        names = [spreadsheet_text(name) for name in comparison.names(pair)]
        numbers = (pair.percent, pair.alike_exercises, pair.compared, _count_lines(comparison, pair))
        rows.append([*names, *map(str, numbers), "yes" if pair.identical else "no", exercises])
    return write_file(folder / TABLE_NAME, format_table(rows))


def write_page(comparison: Comparison, folder: Path, title: str) -> Path:
    """Write similarity.html into `folder`. ReportProblem without Jinja, GradingProblem if it cannot be written."""
    return write_file(folder / PAGE_NAME, render(comparison, title))


def render(comparison: Comparison, title: str) -> str:
    shown = comparison.pairs[:MAX_SHOWN_PAIRS]
    pairs = [_show(comparison, number, pair) for number, pair in enumerate(shown, start=1)]
    here = Path(__file__).parent
    return render_template("similarity", here, title=title, comparison=comparison, pairs=pairs, at_once=NAMES_AT_ONCE)


def _show(comparison: Comparison, number: int, pair: Pair) -> dict[str, Any]:
    exercises = []
    for alike in pair.alike[:MAX_SHOWN_EXERCISES]:
        first, second = _mark(comparison, pair, alike)
        exercises.append({
            "title": _title(alike.module, alike.name),
            "percent": alike.percent,
            "sides": (first[:MAX_LINES], second[:MAX_LINES]),
            "left_out": max(0, len(first) - MAX_LINES, len(second) - MAX_LINES),
        })  # fmt: skip
    return {
        "number": number,
        "names": comparison.names(pair),
        "pair": pair,
        "lines": _count_lines(comparison, pair),
        "exercises": exercises,
        "more": [f"{_title(one.module, one.name)} ({one.percent} %)" for one in pair.alike[MAX_SHOWN_EXERCISES:]],
    }


def _mark(comparison: Comparison, pair: Pair, alike: AlikeExercise) -> tuple[list[Line], list[Line]]:
    """The lines of an exercise of both people."""
    first, second = (comparison.works[place].sources[alike.module] for place in (pair.first, pair.second))
    return mark_both((first, second), alike.name, alike.pieces)


def _count_lines(comparison: Comparison, pair: Pair) -> int:
    """How many lines of the first person are alike."""
    return sum(line.is_alike for alike in pair.alike for line in _mark(comparison, pair, alike)[0])


def _title(module: str, name: str) -> str:
    return name or f"other code of {module}.py"


# ---- the lines of an exercise, with common pieces marked, without docstrings and empty lines


@dataclass(frozen=True)
class Line:
    number: int
    text: str
    is_alike: bool


@dataclass(frozen=True)
class _Definition:
    """One definition in a chapter."""

    tokens: list[Token]
    runs: list[Run]
    first: int  # line
    docstrings: frozenset[int]  # lines
    lines: list[str]

    def common(self, pieces: Collection[Piece]) -> set[Piece]:
        return {number for number, _, _ in self.runs if number in pieces}

    def mark(self, pieces: Collection[Piece]) -> list[Line]:
        """Its lines, without docstrings and empty ones."""
        runs = [(start, end) for number, start, end in self.runs if number in pieces]
        alike = {self.tokens[place][1] for start, end in runs for place in range(start, end)}
        with_code = {line for _, line in self.tokens}
        shown: list[Line] = []
        for number, code in enumerate(self.lines, start=self.first):
            if number in self.docstrings:
                continue
            if code and number not in with_code and not code.lstrip().startswith("#"):
                shown.append(Line(number, code, bool(shown) and shown[-1].is_alike))  # the end of a longer statement
            elif code:
                shown.append(Line(number, code, number in alike))
        return shown


def mark_both(texts: tuple[str, str], name: str, pieces: Collection[Piece]) -> tuple[list[Line], list[Line]]:
    """The lines of this exercise in two people's chapters.

    For "" these are the other definitions with common pieces.
    """
    both = [[one for one in _read(text, name) if name or one.common(pieces)] for text in texts]
    left, right = ([line for one in definitions for line in one.mark(pieces)] for definitions in both)
    return left, right


@lru_cache(maxsize=4096)
def _read(text: str, name: str) -> list[_Definition]:
    tree, lines = parse(text), [line.rstrip() for line in split_lines(text)]
    fixed = fixed_names(tree)
    found = []
    for node in find_definitions(tree).get(name, []):
        decorators = [decorator.lineno for decorator in getattr(node, "decorator_list", ())]
        tokens, first = read_tokens(node, fixed), min([node.lineno, *decorators])
        docstrings: set[int] = set()
        for part in ast.walk(node):
            match part:
                case ast.Expr(value=ast.Constant(value=str()) as literal):
                    docstrings |= {*range(literal.lineno, (literal.end_lineno or literal.lineno) + 1)}
        own = lines[first - 1 : node.end_lineno]
        found.append(_Definition(tokens, list(number_runs(tokens)), first, frozenset(docstrings), own))
    return found
