"""Writes marks into the tables that learning platforms export and import again: Canvas, Moodle, Gradescope.

Each platform has its own table, which says which rows are people and which column has the grades.

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
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

from grader.classroom import sanitize
from grader.classroom.anonymous import Pseudonyms
from grader.classroom.gradebook import Gradebook
from grader.classroom.grading_options import stored_class
from grader.classroom.intake.submissions import GradingProblem
from grader.classroom.intake.tables import find_separator, read_text
from grader.classroom.judging.marks import GradedClass, Person, format_points, round_to_cent
from grader.classroom.sanitize import list_names, shorten
from grader.classroom.term.course import Assignment
from grader.classroom.term.roster import (
    NO_ROSTER,
    Roster,
    RosterPerson,
    find_columns,
    first_last,
    fold,
    has_names,
    parse_person,
)
from grader.counts import format_count

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
            many = f"there are {len(row.cells)} cells for {format_count(columns, 'column')}"
            raise GradingProblem(f"{path.name}, line {row.line}: {many}; {AGAIN}")
    with path.open("rb") as file:
        mark = BYTE_ORDER_MARK if file.read(3) == BYTE_ORDER_MARK.encode() else ""
    return CsvTable(path.name, separator, rows, mark, "\r\n" if "\r\n" in text else "\n")


# ---- filling the rows of the graded people
#
# A row is found by an id, by e-mail or login, or by an equal name. Nothing is guessed: if two rows fit, or an id
# differs, nothing is written.


NUMBERS = ("canvas_id", "moodle_id", "number")
ADDRESSES = ("email", "login")  # compared with each other: the login may be the e-mail address


@dataclass(frozen=True)
class PersonMark:
    """The mark of a person, with everything that is known about whose it is."""

    person: Person
    ids: dict[str, str] = field(default_factory=dict)  # fields of a RosterPerson that are known
    who: RosterPerson | None = None  # None if the person is not in the roster

    @property
    def name(self) -> str:
        return self.person.name

    @property
    def is_graded(self) -> bool:
        """False if it is not graded yet; or if it could not be graded, and the instructor gave no points."""
        return not self.person.waiting and (not self.person.problem or bool(self.person.given))


def read_grades(folder: Path, key: Path | None) -> tuple[GradedClass, list[PersonMark], Assignment | None]:
    """The class that was graded into this folder, with names; its marks; and the assignment.

    GradingProblem if there is none, or without the key.
    """
    stored = stored_class(folder, key)
    pseudonyms = stored.pseudonyms
    if stored.options.anonymous and not pseudonyms:
        pseudonyms = Pseudonyms.read(stored.options.key_path(folder))
    _, _, course = stored.options.resolve()  # with the real names, unlike stored.course
    with Gradebook.read(folder) as book:
        graded, ids = book.graded_class(stored.rules), book.list_ids()
    if not graded.people:
        raise GradingProblem(f"the gradebook in {folder} has no people yet; run `headway grade` first")
    if pseudonyms:
        graded, ids = pseudonyms.show_class(graded), pseudonyms.show_ids(graded)
    roster = course.roster if course else NO_ROSTER
    named = course.assignment(stored.options.assignment) if course else None
    return graded, collect_marks(graded, ids, roster), named


def collect_marks(graded: GradedClass, ids: Mapping[str, Mapping[str, str]], roster: Roster) -> list[PersonMark]:
    """A mark for each person, with the ids from the names of submitted files, and the other ones from the roster."""
    found = []
    for person in (one for one in graded.people if not one.missing or one.given):
        who = roster.find(person.name)
        found.append(PersonMark(person, {**(who.ids if who else {}), **ids.get(person.slug, {})}, who))
    return found


@dataclass
class Filled:
    pairs: list[tuple[Learner, PersonMark]] = field(default_factory=list)  # also those whose grade was not changed
    written: int = 0
    unchanged: int = 0  # grades that the table had already
    changed: list[str] = field(default_factory=list)  # "Alpha One: 5, now 7"
    kept: list[str] = field(default_factory=list)
    not_graded: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)  # rows without a mark
    strangers: list[str] = field(default_factory=list)  # marks without a row


def fill(sheet: Sheet, marks: Sequence[PersonMark], scale: bool | None, zeros: bool) -> Filled:
    """Write the marks into the table. GradingProblem if this cannot be the right table.

    `scale` converts the points to the table's largest grade; None refuses if they differ. `zeros` writes 0 for people
    without a submission that can be graded.
    """
    pairs, strangers = _match(sheet, marks)
    if not pairs:
        many = f"({format_count(len(sheet.learners), 'person', 'people')} there, {len(marks)} here)"
        raise GradingProblem(
            f"no person in {sheet.table.name} is in this gradebook {many}; "
            "check the file, the assignment and the roster's ids"
        )
    matched = {learner.row.line for learner, _ in pairs}
    missing = [learner for learner in sheet.learners if learner.row.line not in matched]
    done = Filled(pairs, missing=[learner.label for learner in missing], strangers=strangers)
    comma = _has_decimal_comma(sheet)
    for learner, mark in sorted(pairs, key=lambda pair: pair[0].row.line):
        if mark.is_graded:
            _write(sheet, learner, _grade(sheet, learner, mark, scale), comma, done)
        elif zeros and not mark.person.waiting:
            _write(sheet, learner, Decimal(0), comma, done)
        else:
            done.not_graded.append(f"{learner.label}: {mark.person.problem}")
    for learner in missing if zeros else ():
        _write(sheet, learner, Decimal(0), comma, done)
    return done


def _match(sheet: Sheet, marks: Sequence[PersonMark]) -> tuple[list[tuple[Learner, PersonMark]], list[str]]:
    """The rows and the marks that belong together, and the names of the other marks.

    GradingProblem if two rows have the same id.
    """
    seen: dict[tuple[str, str], int] = {}
    for learner in sheet.learners:
        for name, value in learner.ids.items():
            if (first := seen.setdefault((name, value.casefold()), learner.row.line)) != learner.row.line:
                also = f"the {name} {shorten(value)} is also in line {first}"
                raise GradingProblem(f"{sheet.table.name}, line {learner.row.line}: {also}; {AGAIN}")
    found = [_find_rows(mark, sheet.learners) for mark in marks]
    owners = Counter(rows[0].row.line for rows in found if len(rows) == 1)
    pairs, strangers = [], []
    for mark, rows in zip(marks, found):
        if len(rows) == 1 and owners[rows[0].row.line] == 1:
            pairs.append((rows[0], mark))
        else:
            several = f"several submissions fit line {rows[0].row.line}" if len(rows) == 1 else "several rows fit"
            strangers.append(shorten(mark.name) + (f" ({several})" if rows else ""))
    return pairs, strangers


def _find_rows(mark: PersonMark, learners: Sequence[Learner]) -> list[Learner]:
    """The rows with an id or an address of this person; if there are none, those with the name."""
    keys = _keys(mark.ids)
    if by_id := [one for one in learners if keys & _keys(one.ids)]:
        return [one for one in by_id if not _differ(one.ids, mark.ids, NUMBERS)]
    names = {fold(mark.name), *([fold(first_last(mark.who.name))] if mark.who else [])} - {""}
    by_name = [one for one in learners if names & {fold(text) for text in (one.name, *one.ids.values())}]
    return [one for one in by_name if not _differ(one.ids, mark.ids, (*NUMBERS, "email"))]


def _keys(ids: Mapping[str, str]) -> set[tuple[str, str]]:
    return {("address" if name in ADDRESSES else name, value.casefold()) for name, value in ids.items() if value}


def _differ(ids: Mapping[str, str], other: Mapping[str, str], fields: Sequence[str]) -> bool:
    """Whether both have one of these fields, with different values."""
    both = [name for name in fields if ids.get(name) and other.get(name)]
    return any(ids[name].casefold() != other[name].casefold() for name in both)


def _write(sheet: Sheet, learner: Learner, grade: Decimal, comma: bool, done: Filled) -> None:
    old, new = learner.row.value(sheet.column), format_points(grade)
    if old.casefold() in sheet.fixed:
        done.kept.append(f"{learner.label}: {old}")
    elif learner.locked:
        done.kept.append(f"{learner.label}: {old or 'no grade'} ({learner.locked})")
    elif parse_grade(old) == grade:
        done.unchanged += 1
    else:
        if old:
            done.changed.append(f"{learner.label}: {shorten(old)}, now {new}")
        learner.row.set(sheet.column, new.replace(".", ",") if comma else new)
        done.written += 1


def _grade(sheet: Sheet, learner: Learner, mark: PersonMark, scale: bool | None) -> Decimal:
    total, most = mark.person.total, sheet.largest_grades.get(learner.row.line, "")
    if not most:
        return total.earned
    largest, where = parse_grade(most), sheet.table.name
    if largest is None:
        problem = f"the largest grade is {shorten(most)!r}, not a number; set the assignment's grade to points"
        raise GradingProblem(f"{where}, line {learner.row.line}: {problem}")
    if largest == total.points or scale is False:
        return total.earned
    if scale is None:
        points = f"{format_points(largest)}, and {format_points(total.points)} points can be earned here"
        raise GradingProblem(
            f"{where}: the largest grade of {shorten(sheet.title)} is {points}; "
            "add --scale to convert the points, or --no-scale to write them as they are"
        )
    if not total.points:
        return Decimal(0)
    return round_to_cent(Fraction(total.earned) * Fraction(largest) / Fraction(total.points))


def parse_grade(text: str) -> Decimal | None:
    """The number in a cell, with a decimal point or comma; None for a cell without a number."""
    is_number = re.fullmatch(r"-?[0-9]{1,9}(?:[.,][0-9]{1,9})?", text)
    return Decimal(text.replace(",", ".")) if is_number else None


def _has_decimal_comma(sheet: Sheet) -> bool:
    cells = [row.value(sheet.column) for row in sheet.table.body] + list(sheet.largest_grades.values())
    return sheet.table.separator == ";" and any(re.fullmatch(r"[0-9]+,[0-9]+", cell) for cell in cells)
