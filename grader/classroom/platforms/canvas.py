"""Canvas' gradebook as CSV: Student, ID, SIS User ID, SIS Login ID, Section, then a column "Title (id)" for each assignment, then read-only totals.

Below the header there may be a row that says "Manual Posting", and there is one with the possible points. Canvas' import changes what differs from its
own gradebook: a new column becomes a new assignment, and the possible points of a column become those of its assignment.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

from grader.classroom.intake.problems import GradingProblem
from grader.classroom.judging.scoring import format_points
from grader.classroom.platforms.csv_table import CsvTable, TableRow, read_table
from grader.classroom.platforms.filling import Sheet
from grader.classroom.platforms.matching import Learner
from grader.classroom.platforms.recognition import missing_column
from grader.classroom.sanitize import shorten
from grader.classroom.term.roster import first_last, fold

FIXED = ("ex", "n/a")  # excused, and not assigned
TEST_STUDENTS = ("student, test", "test student")  # Canvas adds one to each gradebook
_ASSIGNMENT = re.compile(r"(.*\S)\s+\(([0-9]+)\)", re.DOTALL)
_POSTING = re.compile(r"(?i)(?:muted|manual posting.*)?")


def open_sheet(path: Path, titles: Sequence[str], new: bool, points: Decimal) -> Sheet:
    """The gradebook and the column of the assignment with one of these titles; with `new`, a column for a new assignment. GradingProblem if it does not fit."""
    table = read_table(path)
    name, last, first = table.column("student"), table.column("lastname"), table.column("firstname")
    ids = {"canvas_id": table.column("id"), "number": table.column("sis user id"), "login": table.column("sis login id")}
    if (name is None and (last is None or first is None)) or ids["canvas_id"] is None or table.column("section") is None:
        raise missing_column(table, "a Canvas gradebook", "Student, ID and Section")
    learners, possible = [], None
    for row in table.body:
        if "points possible" in row.value(0).lower():
            possible = row
        elif not all(_POSTING.fullmatch(cell.strip().strip('"')) for cell in row.cells):
            shown = row.value(name) if name is not None else f"{row.value(first or 0)} {row.value(last or 0)}".strip()
            if shown.lower() not in TEST_STUDENTS:
                known = {field: row.value(place) for field, place in ids.items() if place is not None}
                learners.append(Learner(row, first_last(shown), known))
    column = _find_assignment(table, titles)
    if column is None:
        if not new:
            raise _no_assignment(table, titles)
        column = _add_assignment(table, titles, possible, points)
    elif possible and "read only" in possible.value(column):
        raise GradingProblem(f"{table.name}: Canvas computes the column {table.header[column]} itself (it is read-only); choose an assignment with --column")
    most = possible.value(column) if possible else ""
    return Sheet(table, learners, column, table.header[column], {learner.row.line: most for learner in learners}, FIXED)


def _find_assignment(table: CsvTable, titles: Sequence[str]) -> int | None:
    wanted = {fold(title) for title in titles}
    found = [
        place for place, cell in enumerate(table.header)
        if (parts := _ASSIGNMENT.fullmatch(cell)) and wanted & {fold(cell), fold(parts[1]), parts[2]}
    ]  # fmt: skip
    if len(found) > 1:
        raise GradingProblem(
            f"{table.name} has several assignments of this title: {_list(table.header[place] for place in found)}; choose one with --column and its number"
        )
    return found[0] if found else None


def _add_assignment(table: CsvTable, titles: Sequence[str], possible: TableRow | None, points: Decimal) -> int:
    if not titles:
        raise GradingProblem('give the new assignment a title with --column "TITLE"')
    if possible is None:
        raise GradingProblem(f"{table.name} has no row with the possible points (Points Possible); export the gradebook again")
    column = table.add_column(titles[-1])
    table.set(possible, column, format_points(points))
    return column


def _no_assignment(table: CsvTable, titles: Sequence[str]) -> GradingProblem:
    has = _list(cell for cell in table.header if _ASSIGNMENT.fullmatch(cell)) or "none"
    if not titles:
        return GradingProblem(f'say which assignment of {table.name} gets the grades, with --column "TITLE"; its assignments are: {has}')
    wanted = " or ".join(map(shorten, dict.fromkeys(titles)))
    return GradingProblem(f"{table.name} has no assignment {wanted}; its assignments are: {has}. Choose one with --column, or add --new to create one in Canvas")


def _list(names) -> str:
    return ", ".join(map(shorten, names))
