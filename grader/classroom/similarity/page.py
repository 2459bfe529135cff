"""Writes similarity.html, the groups of a class and its pairs with their code side by side; similarity.csv, a row for
each pair; and similarity-groups.csv, a row for each person of a group.

The page fetches nothing; equal classes give equal bytes.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from grader.classroom.class_report import render_template
from grader.classroom.exports import format_table, spreadsheet_text, write_file
from grader.classroom.similarity.comparison import AlikeExercise, Comparison, EqualGroup, Pair
from grader.classroom.similarity.pieces import (
    Piece,
    Run,
    Token,
    number_runs,
    read_definitions,
)
from grader.course.source import parse, split_lines

PAGE_NAME, TABLE_NAME, GROUPS_NAME = "similarity.html", "similarity.csv", "similarity-groups.csv"
MAX_LINES = 200  # of one exercise
MAX_SHOWN_PAIRS = 40  # side by side
MAX_SHOWN_GROUPS = 20
MAX_SHOWN_EXERCISES = 8  # of one pair side by side, or of one group
NAMES_AT_ONCE = 12  # in one sentence
COLUMNS = [
    "person", "other person", "percent", "alike exercises", "compared exercises", "alike lines", "identical files",
    "exercises",
]  # fmt: skip
GROUP_COLUMNS = ["group", "person", "people", "percent that counts in pairs", "same lines", "exercises"]


def write_tables(comparison: Comparison, folder: Path) -> list[Path]:
    """Write similarity.csv and similarity-groups.csv into `folder`. GradingProblem if that is not possible."""
    rows = [COLUMNS]
    for pair in comparison.pairs:
        exercises = " ".join(f"{one.name or one.module + ' (other code)'}:{one.percent}" for one in pair.alike)
        names = [spreadsheet_text(name) for name in comparison.names(pair)]
        numbers = (pair.percent, pair.alike_exercises, pair.compared, _count_lines(comparison, pair))
        rows.append([*names, *map(str, numbers), "yes" if pair.identical else "no", exercises])
    groups = [GROUP_COLUMNS]
    for number, group in enumerate(comparison.groups, start=1):
        same = " ".join(one.name or f"{one.module} (other code)" for one in group.exercises)
        facts = [str(len(group.places)), str(group.counted_percent), str(count_same_lines(comparison, group)), same]
        groups += [[str(number), spreadsheet_text(name), *facts] for name in comparison.members(group)]
    tables = {TABLE_NAME: rows, GROUPS_NAME: groups}
    return [write_file(folder / name, format_table(table)) for name, table in tables.items()]


def write_page(comparison: Comparison, folder: Path, title: str) -> Path:
    """Write similarity.html into `folder`. ReportProblem without Jinja, GradingProblem if it cannot be written."""
    return write_file(folder / PAGE_NAME, render(comparison, title))


def render(comparison: Comparison, title: str) -> str:
    shown = comparison.pairs[:MAX_SHOWN_PAIRS]
    values: dict[str, Any] = {
        "pairs": [_show(comparison, number, pair) for number, pair in enumerate(shown, start=1)],
        "groups": [_show_group(comparison, group) for group in comparison.groups[:MAX_SHOWN_GROUPS]],
    }
    return render_template("similarity", title=title, comparison=comparison, at_once=NAMES_AT_ONCE, **values)


def _show_group(comparison: Comparison, group: EqualGroup) -> dict[str, Any]:
    """The group, and its exercises as the first person wrote them."""
    names, exercises = comparison.members(group), []
    for alike in group.exercises[:MAX_SHOWN_EXERCISES]:
        lines = _same_lines(comparison, group, alike)
        left_out = max(0, len(lines) - MAX_LINES)
        exercises.append({"title": _title(alike.module, alike.name), "lines": lines[:MAX_LINES], "left_out": left_out})
    more = [_title(one.module, one.name) for one in group.exercises[MAX_SHOWN_EXERCISES:]]
    many = count_same_lines(comparison, group)
    return {"group": group, "names": names, "lines": many, "exercises": exercises, "more": more}


def _same_lines(comparison: Comparison, group: EqualGroup, alike: AlikeExercise) -> list[Line]:
    text = comparison.works[group.places[0]].sources[alike.module]
    return mark_both((text, text), alike.name, alike.pieces)[0]


def count_same_lines(comparison: Comparison, group: EqualGroup) -> int:
    """How many lines everybody in this group has, without what the course explains."""
    return sum(line.is_alike for alike in group.exercises for line in _same_lines(comparison, group, alike))


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
    lines: dict[int, str]  # number → text, also those of helpers that moved into it
    continued: frozenset[int]  # lines at which no part of the code begins

    def common(self, pieces: Collection[Piece]) -> set[Piece]:
        return {number for number, _, _ in self.runs if number in pieces}

    def mark(self, pieces: Collection[Piece]) -> list[Line]:
        """Its lines, without docstrings and empty ones."""
        runs = [(start, end) for number, start, end in self.runs if number in pieces]
        alike = {self.tokens[place][1] for start, end in runs for place in range(start, end)}
        shown: list[Line] = []
        for number, code in self.lines.items():  # a statement of several lines is marked whole
            is_alike = shown[-1].is_alike if shown and number in self.continued else number in alike
            shown.append(Line(number, code, is_alike))
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
    starts = {line for part in ast.walk(tree) if (line := getattr(part, "lineno", 0))}
    docstrings: set[int] = set()
    for part in ast.walk(tree):
        match part:
            case ast.Expr(value=ast.Constant(value=str()) as literal):
                docstrings |= {*range(literal.lineno, (literal.end_lineno or literal.lineno) + 1)}
    found = []
    for one in read_definitions(text).get(name, []):
        numbers = sorted({*range(one.first, one.end + 1), *(line for _, line in one.tokens)} - docstrings - {0})
        shown = {number: lines[number - 1] for number in numbers if lines[number - 1]}
        continued = frozenset(number for number in {*shown} - starts if not shown[number].lstrip().startswith("#"))
        found.append(_Definition(one.tokens, list(number_runs(one.tokens)), shown, continued))
    return found
