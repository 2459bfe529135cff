"""Tables for spreadsheets and learning platforms: grades.csv of one class, and marks.csv of a term.

grades.csv has a row per person, also for missing people of the roster, and a column per exercise. marks.csv has a row
per person with all ids of the roster, the term's total, and the points of each assignment.
"""

from __future__ import annotations

import re
from pathlib import Path

from grader.classroom import sanitize
from grader.classroom.exports.text import correction_sentences, write_file
from grader.classroom.judging.graded_class import GradedClass, Person
from grader.classroom.judging.scoring import format_points
from grader.classroom.term.marks import PersonMarks, TermMarks
from grader.classroom.term.roster import FIELDS

GRADES_NAME, MARKS_NAME = "grades.csv", "marks.csv"
COLUMNS = ("name", "total", "of", "late", "problem", "notes")  # and then the exercises

# A spreadsheet runs a cell that starts like this as a formula; the wide forms are typed on East Asian keyboards. If the
# system's list separator is a semicolon (in much of Europe), a spreadsheet splits lines there, also inside quotes, so
# that cells can start in the middle of a text.
_FORMULA = re.compile('(^|[;|])[ "]*(?=[=+\\-@\uff1d\uff0b\uff0d\uff20])')
_QUOTED = re.compile('[,;|\t"\r\n]')


def write(graded: GradedClass, folder: Path) -> list[Path]:
    people = [*graded.people, *graded.missing]
    if graded.missing:
        people.sort(key=lambda one: (one.name.casefold(), one.name, one.slug))
    rows = [[*COLUMNS, *(exercise.name for exercise in graded.exercises)], *(_grades(one, graded) for one in people)]
    return [write_file(folder / GRADES_NAME, format_table(rows))]


def _grades(person: Person, graded: GradedClass) -> list[str]:
    broken = [f"{module}.py does not import" for module in person.broken]
    notes = "; ".join([*person.notes, *correction_sentences(person).values(), *broken])
    words = [spreadsheet_text(text) for text in (person.late, "missing" if person.missing else person.problem)]
    earned = [format_points(person.marks[exercise.name].earned) for exercise in graded.exercises]
    total = [format_points(person.total.earned), format_points(person.total.points)]
    return [spreadsheet_text(person.name), *total, *words, spreadsheet_text(notes, sanitize.MAX_TEXT_LENGTH), *earned]


def write_marks(marks: TermMarks, folder: Path) -> Path:
    header = [*FIELDS, "percent"]
    for name in marks.classes:
        header += [name, f"{name} of", f"{name} remark"]
    return write_file(folder / MARKS_NAME, format_table([header, *map(_marks, marks.people)]))


def _marks(person: PersonMarks) -> list[str]:
    row = [spreadsheet_text(getattr(person.who, field)) for field in FIELDS]
    row.append("" if person.percent is None else format_points(person.percent))
    for mark in person.marks.values():
        earned = "" if mark.is_waiting else format_points(mark.earned)
        row += [earned, format_points(mark.points), spreadsheet_text(mark.remark)]
    return row


def format_table(rows: list[list[str]]) -> str:
    """The rows as CSV that Excel opens correctly."""
    # With a byte order mark: without it, Excel reads UTF-8 as the system's old code page and garbles every name with an
    # accent. LibreOffice, pandas and the importers of Moodle and Canvas ignore the mark; with Python's csv module use
    # encoding="utf-8-sig".
    return "\ufeff" + "".join(",".join(map(_quote, row)) + "\r\n" for row in rows)


def spreadsheet_text(words: str, length: int = sanitize.MAX_LINE_LENGTH) -> str:
    """Text that no spreadsheet runs as a formula: an apostrophe in front marks it as text."""
    return _FORMULA.sub(r"\g<0>'", sanitize.line(words, length))


def _quote(cell: str) -> str:
    """The cell in the file: in quotes if it contains a character that a spreadsheet may treat as a separator."""
    return '"' + cell.replace('"', '""') + '"' if _QUOTED.search(cell) else cell
