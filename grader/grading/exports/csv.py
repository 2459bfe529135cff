"""grades.csv: a row a person, a column an exercise; for a spreadsheet, or for whatever keeps the course's grades."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from .. import harmless
from ..marking import written
from ..record import GradedClass, Person
from .files import put

NAME = "grades.csv"
BEFORE = ("name", "total", "of", "late", "problem", "notes")  # and then the exercises

# A spreadsheet takes a cell that begins like this for a formula and runs it; the wide forms are typed on East Asian keyboards.
_RUNS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def write(graded: GradedClass, folder: Path) -> list[Path]:
    # With a byte order mark: without one Excel reads UTF-8 as the system's old code page, and every name with an accent is wrong.
    # LibreOffice, pandas and the importers of Moodle and Canvas pass over it; in Python's csv module it is encoding="utf-8-sig".
    return [put(folder / NAME, "\ufeff" + _table(graded))]


def _table(graded: GradedClass) -> str:
    rows = io.StringIO(newline="")
    writer = csv.writer(rows)
    writer.writerow([*BEFORE, *(exercise.name for exercise in graded.exercises)])
    writer.writerows(_row(person, graded) for person in graded.people)
    return rows.getvalue()


def _row(person: Person, graded: GradedClass) -> list[str]:
    notes = [*person.notes, *(f"{module}.py does not import" for module in person.broken)]
    words = [_cell(text) for text in (person.late, person.problem, "; ".join(notes))]
    earned = [written(person.marks[exercise.name].earned) for exercise in graded.exercises]
    return [_cell(person.name), written(person.total.earned), written(person.total.points), *words, *earned]


def _cell(words: str) -> str:
    """Text that stays text: an apostrophe in front is how a spreadsheet marks it, and how a person sees that it was put there."""
    shown = harmless.line(words)
    return f"'{shown}" if shown.startswith(_RUNS) else shown
