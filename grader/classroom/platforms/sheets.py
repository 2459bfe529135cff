"""What the tables of each learning platform mean: which rows are people, and which column has the grades.

Canvas' gradebook has a column "Title (id)" for each assignment. Below the header there may be a row that says "Manual
Posting", and there is one with the possible points. Canvas' import changes what differs from its own gradebook.

Moodle's grading worksheet has an Identifier ("Participant 123"), and names unless they are hidden. Its import finds
people by the identifier, skips rows whose grade was changed since the export, and needs the column Last modified
(grade). In an archive of feedback files, each path begins with NAME_123_assignsubmission_file_.

Gradescope's table is its grades ("Download Grades").
"""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from grader.classroom import sanitize
from grader.classroom.intake.problems import GradingProblem
from grader.classroom.intake.roster import find_separator, read_text
from grader.classroom.sanitize import list_names, shorten
from grader.classroom.term.roster import find_columns, fold, has_names, parse_person

CANVAS, MOODLE, GRADESCOPE = "a Canvas gradebook", "a Moodle grading worksheet", "a Gradescope table"
COLUMNS = {
    CANVAS: "Student, ID and Section",
    MOODLE: 'Identifier and Grade (in another language, name the column of the grades with --column "TITLE")',
    GRADESCOPE: "Name (or First Name and Last Name), Email and Total Score",
}
CANVAS_FIXED = ("ex", "n/a")  # excused, and not assigned
LOCKED = "Moodle does not allow a change"
_ASSIGNMENT = re.compile(r"(.*\S)\s+\(([0-9]+)\)", re.DOTALL)
_IDENTIFIER = re.compile(r"\D*?([0-9]+)")


@dataclass
class Learner:
    """A row about one person."""

    row: TableRow
    name: str  # first name first; "" if the table hides the names
    ids: dict[str, str] = field(default_factory=dict)
    locked: str = ""  # why its grade cannot be changed

    @property
    def label(self) -> str:
        return sanitize.line(self.name or " ".join(self.ids.values()), 60)


@dataclass
class Sheet:
    """A platform's table: its rows about learners, and where the grades are."""

    table: CsvTable
    learners: list[Learner]
    column: int  # of the grades
    largest_grades: dict[int, str] = field(default_factory=dict)  # as the table writes them, by line
    fixed: tuple[str, ...] = ()  # words in the column that are not replaced, in lower case

    @property
    def title(self) -> str:
        return self.table.header[self.column]


def open_canvas(path: Path, titles: Sequence[str]) -> Sheet:
    """The gradebook and the column of the assignment with one of these titles. GradingProblem if it does not fit."""
    table = read_table(path)
    learners = _read_learners(table, CANVAS, ("canvas_id", "section"))
    possible = next((row for row in table.body if "points possible" in row.value(0).lower()), None)
    column = _find_assignment(table, titles)
    if possible and "read only" in possible.value(column):
        computed = f"Canvas computes the column {table.header[column]} itself (it is read-only)"
        raise GradingProblem(f"{table.name}: {computed}; choose an assignment with --column")
    most = possible.value(column) if possible else ""
    return Sheet(table, learners, column, {learner.row.line: most for learner in learners}, CANVAS_FIXED)


def open_moodle(path: Path, column: str) -> Sheet:
    """The worksheet. `column` is the title of the grades if Moodle wrote it in another language.

    GradingProblem if it does not fit.
    """
    table = read_table(path)
    grade, identifier = table.column((column or "grade").casefold()), table.column("identifier")
    if column and identifier is None:
        identifier = 0  # Moodle always writes it first
    if grade is None or identifier is None:
        raise _wrong_table(table, MOODLE)
    if not column and table.column("last modified (grade)") is None:
        needed = "has no column Last modified (grade), which Moodle needs for the import"
        raise GradingProblem(f"{table.name} {needed}; download the grading worksheet again")
    for row in table.body:
        if not _IDENTIFIER.fullmatch(row.value(identifier)):
            cell = f"the identifier {shorten(row.value(identifier))!r} is not like Participant 123"
            raise GradingProblem(f"{table.name}, line {row.line}: {cell}; download the grading worksheet again")
    learners = _read_learners(table, MOODLE, (), identifier)
    locked = table.column("grade can be changed")
    for learner in learners:
        learner.locked = LOCKED if learner.row.value(locked).casefold() == "no" else ""
    return Sheet(table, learners, grade, _read_column(learners, table.column("maximum grade")))


def open_gradescope(path: Path) -> Sheet:
    """The table. GradingProblem if it does not fit."""
    table = read_table(path)
    learners, column = _read_learners(table, GRADESCOPE, ("email",)), table.column("total score")
    if column is None:
        raise _wrong_table(table, GRADESCOPE)
    return Sheet(table, learners, column, _read_column(learners, table.column("max points")))


def _read_learners(
    table: CsvTable, platform: str, required: Sequence[str], moodle_id: int | None = None
) -> list[Learner]:
    for title in table.header:
        table.column(title.casefold())  # it must not appear twice
    places = find_columns(table.header) | ({} if moodle_id is None else {"moodle_id": moodle_id})
    if not set(required) <= places.keys() or (platform != MOODLE and not has_names(places)):
        raise _wrong_table(table, platform)
    learners = []
    for row in table.body:
        cells = {name: row.value(place) for name, place in places.items()}
        person = parse_person(f"{table.name}, line {row.line}", cells, needs_name=platform != MOODLE)
        if person is not None:
            learners.append(Learner(row, person.name, person.ids))
    return learners


def _read_column(learners: Sequence[Learner], place: int | None) -> dict[int, str]:
    return {learner.row.line: value for learner in learners if (value := learner.row.value(place))}


def _wrong_table(table: CsvTable, platform: str) -> GradingProblem:
    columns = f"it must have the columns {COLUMNS[platform]}, and it has {list_names(table.header, 12)}"
    return GradingProblem(f"{table.name} is not {platform}: {columns}")


def _find_assignment(table: CsvTable, titles: Sequence[str]) -> int:
    """The column of the assignment with one of these titles, or numbers."""
    wanted, found, assignments = {fold(title) for title in titles}, [], []
    for place, cell in enumerate(table.header):
        if parts := _ASSIGNMENT.fullmatch(cell):
            assignments.append(shorten(cell))
            found += [place] if wanted & {fold(cell), fold(parts[1]), parts[2]} else []
    if len(found) == 1:
        return found[0]
    what = " or ".join(map(shorten, dict.fromkeys(titles))) or "without a title"
    many = f"{'several assignments' if found else 'no assignment'} {what}"
    has = ", ".join(assignments) or "none"
    ways = "choose one with --column and its title or number, or create it in Canvas and export again"
    raise GradingProblem(f"{table.name} has {many}; its assignments are: {has}; {ways}")


def make_feedback_archive(pages: Sequence[tuple[Learner, str]]) -> bytes:
    """The zip of feedback pages that Moodle gives back to the learners."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for learner, page in pages:  # Moodle splits at underscores, so there must be none in the name
            name = " ".join(re.sub(r"""[\\/:*?"<>|_.~]""", " ", sanitize.line(learner.name, 100)).split())
            folder = f"{name or 'Participant'}_{learner.ids['moodle_id']}_assignsubmission_file_"
            archive.writestr(f"{folder}/feedback.md", page)
    return target.getvalue()


BYTE_ORDER_MARK = "\ufeff"
AGAIN = "export the table again"


@dataclass
class TableRow:
    line: int
    cells: list[str]

    def value(self, place: int | None) -> str:
        """The text of a cell without spaces around it; "" if there is no such cell."""
        return self.cells[place].strip() if place is not None and place < len(self.cells) else ""

    def set(self, place: int, text: str) -> None:
        self.cells += [""] * (place + 1 - len(self.cells))
        self.cells[place] = text


@dataclass
class CsvTable:
    name: str
    separator: str
    rows: list[TableRow]  # the first one names the columns
    mark: str  # the byte order mark, or ""
    line_end: str

    @property
    def header(self) -> list[str]:
        return [cell.strip() for cell in self.rows[0].cells]

    @property
    def body(self) -> list[TableRow]:
        """The rows below the header that are not empty."""
        return [row for row in self.rows[1:] if any(map(str.strip, row.cells))]

    def column(self, *names: str) -> int | None:
        """The place of the column with one of these names. GradingProblem if there are two."""
        places = [place for place, cell in enumerate(self.header) if cell.casefold() in names]
        if len(places) > 1:
            raise GradingProblem(f"{self.name}, line 1: the column {self.header[places[0]]} appears twice; {AGAIN}")
        return places[0] if places else None

    def text(self) -> str:
        out = io.StringIO(newline="")
        writer = csv.writer(out, delimiter=self.separator, lineterminator=self.line_end)
        writer.writerows(row.cells for row in self.rows)
        return self.mark + out.getvalue()


def read_table(path: Path) -> CsvTable:
    """The table in this file. GradingProblem, one sentence with the line, if it is not one."""
    text = read_text(path)
    separator = find_separator(text)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    rows, line = [], 1
    try:
        for cells in reader:
            rows.append(TableRow(line, cells))
            line = reader.line_num + 1
    except csv.Error as error:
        raise GradingProblem(f"{path.name}, line {line}: this is not CSV ({error}); {AGAIN}") from None
    if not any(cell.strip() for row in rows for cell in row.cells):
        raise GradingProblem(f"{path.name} is empty; {AGAIN}")
    columns = len(rows[0].cells)
    for row in rows[1:]:
        if any(row.cells[columns:]):
            many = f"there are {len(row.cells)} cells for {columns} columns"
            raise GradingProblem(f"{path.name}, line {row.line}: {many}; {AGAIN}")
    with path.open("rb") as file:
        mark = BYTE_ORDER_MARK if file.read(3) == BYTE_ORDER_MARK.encode() else ""
    return CsvTable(path.name, separator, rows, mark, "\r\n" if "\r\n" in text else "\n")
