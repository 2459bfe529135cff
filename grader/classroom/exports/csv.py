"""grades.csv: a row per person and a column per exercise, for spreadsheets and learning platforms. Missing people of the roster have a row, too."""

from __future__ import annotations

import re
from pathlib import Path

from grader.classroom import sanitize
from grader.classroom.exports.files import write_if_changed
from grader.classroom.exports.result_text import correction_sentences
from grader.classroom.judging.graded_class import GradedClass, Person
from grader.classroom.judging.scoring import format_points

NAME = "grades.csv"
BEFORE = ("name", "total", "of", "late", "problem", "notes")  # and then the exercises

# A spreadsheet runs a cell that starts like this as a formula; the wide forms are typed on East Asian keyboards. If the system's list separator is
# a semicolon (in much of Europe), a spreadsheet splits lines there, also inside quotes, so that cells can start in the middle of a text.
_FORMULA = re.compile("(^|[;|])[ \"]*(?=[=+\\-@\uff1d\uff0b\uff0d\uff20])")
_QUOTED = re.compile('[,;|\t"\r\n]')


def write(graded: GradedClass, folder: Path) -> list[Path]:
    people = sorted([*graded.people, *graded.missing], key=lambda one: (one.name.casefold(), one.name, one.slug)) if graded.missing else graded.people
    rows = [[*BEFORE, *(exercise.name for exercise in graded.exercises)], *(_row(person, graded) for person in people)]
    return [write_if_changed(folder / NAME, format_table(rows))]


def format_table(rows: list[list[str]]) -> str:
    """The rows as CSV that Excel opens correctly."""
    # With a byte order mark: without it, Excel reads UTF-8 as the system's old code page and garbles every name with an accent. LibreOffice,
    # pandas and the importers of Moodle and Canvas ignore the mark; with Python's csv module use encoding="utf-8-sig".
    return "\ufeff" + "".join(",".join(map(_quote, row)) + "\r\n" for row in rows)


def _row(person: Person, graded: GradedClass) -> list[str]:
    notes = [*person.notes, *correction_sentences(person), *person.remarks, *(f"{module}.py does not import" for module in person.broken)]
    words = [spreadsheet_text(text) for text in (person.late, "missing" if person.missing else person.problem)]
    words.append(spreadsheet_text("; ".join(notes), sanitize.LONG))
    earned = [format_points(person.marks[exercise.name].earned) for exercise in graded.exercises]
    return [spreadsheet_text(person.name), format_points(person.total.earned), format_points(person.total.points), *words, *earned]


def spreadsheet_text(words: str, length: int = sanitize.LONGEST_LINE) -> str:
    """Text that no spreadsheet runs as a formula: an apostrophe in front marks it as text."""
    return _FORMULA.sub(r"\g<0>'", sanitize.line(words, length))


def _quote(cell: str) -> str:
    """The cell as written to the file: in quotes if it contains a character that a spreadsheet may treat as a separator."""
    return '"' + cell.replace('"', '""') + '"' if _QUOTED.search(cell) else cell
