"""marks.csv: a row per person with all ids of the roster, the term's total, and the points of each assignment."""

from __future__ import annotations

from pathlib import Path

from grader.classroom.exports.csv import format_table, spreadsheet_text
from grader.classroom.exports.files import write_if_changed
from grader.classroom.judging.scoring import format_points
from grader.classroom.term.marks import PersonMarks, TermMarks
from grader.classroom.term.roster import FIELDS

NAME = "marks.csv"


def write(marks: TermMarks, folder: Path) -> Path:
    header = [*FIELDS, "percent"]
    for name in marks.classes:
        header += [name, f"{name} of", f"{name} remark"]
    return write_if_changed(folder / NAME, format_table([header, *map(_row, marks.people)]))


def _row(person: PersonMarks) -> list[str]:
    row = [spreadsheet_text(getattr(person.who, field)) for field in FIELDS]
    row.append("" if person.percent is None else format_points(person.percent))
    for mark in person.marks.values():
        row += ["" if mark.is_waiting else format_points(mark.earned), format_points(mark.points), spreadsheet_text(mark.remark)]
    return row
