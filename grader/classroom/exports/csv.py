"""grades.csv: a row a person, a column an exercise; for a spreadsheet, or for whatever keeps the course's grades."""

from __future__ import annotations

import re
from pathlib import Path

from grader.classroom import sanitize
from grader.classroom.exports.files import write_if_changed
from grader.classroom.judging.graded_class import GradedClass, Person
from grader.classroom.judging.scoring import format_points

NAME = "grades.csv"
BEFORE = ("name", "total", "of", "late", "problem", "notes")  # and then the exercises

# A spreadsheet takes a cell that begins like this for a formula and runs it; the wide forms are typed on East Asian keyboards. Where the system's
# list separator is a semicolon (in much of Europe), a spreadsheet cuts the lines there, within quotes too, and cells begin in the middle of a text.
_FORMULA = re.compile("(^|[;|])[ \"]*(?=[=+\\-@\uff1d\uff0b\uff0d\uff20])")
_QUOTED = re.compile('[,;|\t"\r\n]')


def write(graded: GradedClass, folder: Path) -> list[Path]:
    # With a byte order mark: without one Excel reads UTF-8 as the system's old code page, and every name with an accent is wrong.
    # LibreOffice, pandas and the importers of Moodle and Canvas pass over it; in Python's csv module it is encoding="utf-8-sig".
    return [write_if_changed(folder / NAME, "\ufeff" + _table(graded))]


def _table(graded: GradedClass) -> str:
    rows = [[*BEFORE, *(exercise.name for exercise in graded.exercises)], *(_row(person, graded) for person in graded.people)]
    return "".join(",".join(map(_quote, row)) + "\r\n" for row in rows)


def _row(person: Person, graded: GradedClass) -> list[str]:
    notes = [*person.notes, *(f"{module}.py does not import" for module in person.broken)]
    words = [_cell(text) for text in (person.late, person.problem, "; ".join(notes))]
    earned = [format_points(person.marks[exercise.name].earned) for exercise in graded.exercises]
    return [_cell(person.name), format_points(person.total.earned), format_points(person.total.points), *words, *earned]


def _cell(words: str) -> str:
    """Text that stays text: an apostrophe in front is how a spreadsheet marks it, and how a person sees that it was put there."""
    return _FORMULA.sub(r"\g<0>'", sanitize.line(words))


def _quote(cell: str) -> str:
    """A cell as it is written: in quotes where it holds what any spreadsheet may take for a separator."""
    return '"' + cell.replace('"', '""') + '"' if _QUOTED.search(cell) else cell
