"""Writes similarity.html, the pairs of a class with their code side by side, and similarity.csv, a row for each pair.

The page fetches nothing; equal classes give equal bytes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grader.classroom.exports.csv import format_table, spreadsheet_text
from grader.classroom.exports.text import write_file
from grader.classroom.report.templates import render_template
from grader.classroom.similarity.comparison import Comparison, Pair
from grader.classroom.similarity.excerpts import MAX_LINES

PAGE_NAME, TABLE_NAME = "similarity.html", "similarity.csv"
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
        numbers = (pair.percent, pair.alike_exercises, pair.compared, comparison.count_lines(pair))
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
        first, second = comparison.excerpts(pair, alike)
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
        "lines": comparison.count_lines(pair),
        "exercises": exercises,
        "more": [f"{_title(one.module, one.name)} ({one.percent} %)" for one in pair.alike[MAX_SHOWN_EXERCISES:]],
    }


def _title(module: str, name: str) -> str:
    return name or f"other code of {module}.py"
