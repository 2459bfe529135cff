"""similarity.csv: a row for each pair."""

from __future__ import annotations

from pathlib import Path

from grader.classroom.exports.csv import format_table, spreadsheet_text
from grader.classroom.exports.files import write_if_changed
from grader.classroom.similarity.comparison import Comparison

NAME = "similarity.csv"
HEADER = ["person", "other person", "percent", "alike exercises", "compared exercises", "alike lines", "identical files", "exercises"]


def write(comparison: Comparison, folder: Path) -> Path:
    """Write similarity.csv into `folder`. GradingProblem if that is not possible."""
    rows = []
    for pair in comparison.pairs:
        exercises = " ".join(f"{one.name or one.module + ' (other code)'}:{one.percent}" for one in pair.alike)
        names = [spreadsheet_text(name) for name in comparison.names(pair)]
        numbers = [str(pair.percent), str(pair.alike_exercises), str(pair.compared), str(comparison.count_lines(pair))]
        rows.append([*names, *numbers, "yes" if pair.identical else "no", exercises])
    return write_if_changed(folder / NAME, format_table([HEADER, *rows]))
