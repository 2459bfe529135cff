"""Says whose export a table is, for the message about a table of another platform."""

from __future__ import annotations

from grader.classroom.intake.problems import GradingProblem
from grader.classroom.platforms.csv_table import CsvTable
from grader.classroom.sanitize import shorten

KINDS = {
    "canvas": ("a Canvas gradebook", {"id", "sis login id", "section"}),
    "moodle": ("a Moodle grading worksheet", {"identifier", "grade"}),
    "gradescope": ("a Gradescope table", {"sid", "email"}),
}


def missing_column(table: CsvTable, kind: str, columns: str) -> GradingProblem:
    """The problem of a table without these columns."""
    header = {cell.casefold() for cell in table.header}
    for command, (other, signs) in KINDS.items():
        if signs <= header and other != kind:
            return GradingProblem(f"{table.name} is {other}, not {kind}; use `headway export {command}`")
    shown = ", ".join(shorten(cell, 30) for cell in table.header[:12])
    return GradingProblem(f"{table.name} is not {kind}: it must have the columns {columns}, and it has {shown}")
