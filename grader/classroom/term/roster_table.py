"""Reads the roster, a CSV file next to course.toml, and the tables that learning platforms export; writes a roster.

The columns of a roster are the fields of RosterPerson; only `name` is required. The names of the columns of Canvas (gradebook, groups), Moodle (grading
worksheet, participants) and Gradescope (roster, grades) are recognised. For a table in another language, the instructor names the columns.
"""

from __future__ import annotations

import csv
import difflib
import io
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from grader.classroom.intake.problems import GradingProblem
from grader.classroom.intake.roster import read_cells
from grader.classroom.judging.toml_values import suggest
from grader.classroom.sanitize import shorten
from grader.classroom.term.roster import FIELDS, UNIQUE, Roster, RosterPerson, first_last, fold

# The header cells, in lower case and with spaces for underscores, that mean a field.
HEADERS = {
    "name": ("name", "full name", "student", "student name", "learner"),
    "first": ("first name", "given name", "first names", "firstname"),
    "last": ("last name", "surname", "family name", "lastname"),
    "email": ("email", "e-mail", "email address", "e-mail address", "mail"),
    "login": ("login", "sis login id", "login id", "username", "user name"),
    "number": ("number", "student number", "student id", "sid", "sis user id", "user id", "id number", "matriculation number"),
    "canvas_id": ("canvas id", "canvas user id", "id"),
    "moodle_id": ("moodle id", "identifier", "participant number"),
    "section": ("section", "sections", "section name"),
    "group": ("group", "groups", "group name", "team"),
    "role": ("role", "roles"),
}
STAFF = ("instructor", "teacher", "ta", "teaching assistant", "reader", "manager", "tutor", "non-editing teacher")
EXPORTED = {"sis user id", "sis login id", "identifier", "sid"}  # a table with one of these is an export: it has other columns too
TEST_STUDENTS = ("student, test", "test student")  # Canvas adds one to each gradebook


def read_people(path: Path, columns: Mapping[str, str] = MappingProxyType({})) -> Roster:
    """The roster in this file, or in a learning platform's export. GradingProblem, with the line, for an invalid row.

    `columns` has the titles of fields whose columns have other names.
    """
    rows = read_cells(path)
    if not rows:
        raise GradingProblem(f"{path.name} is empty; its first line names the columns: {','.join(FIELDS)}")
    places = _find_columns(path.name, rows[0][1], columns)
    people: list[tuple[int, RosterPerson]] = []
    for line, cells in rows[1:]:
        person = _parse_person(path.name, line, {name: cells[place] for name, place in places.items() if place < len(cells)})
        if person is not None:
            people.append((line, person))
    if not people:
        raise GradingProblem(f"{path.name} has a header but no people; write a row for each person")
    return Roster(_distinct(path.name, people), _find_unused(rows[0][1], set(places.values())))


def parse_column_names(words: Iterable[str]) -> dict[str, str]:
    """The titles of columns by field, from `number=Matrikelnummer`. GradingProblem for an unknown field."""
    found = {}
    for word in words:
        field, equals, title = (part.strip() for part in word.partition("="))
        if field not in FIELDS or not title:
            near = suggest(field, FIELDS) if field not in FIELDS else ""
            raise GradingProblem(f"--column {shorten(word)}: write one of {', '.join(FIELDS)}, and the title of its column, like --column number=Matrikelnummer{near}")
        found[field] = title
    return found


def parse_people(where: str, entries: Sequence[dict[str, str]]) -> Roster:
    """The roster that course.toml itself contains."""
    return Roster(_distinct(where, [(number, RosterPerson(**entry)) for number, entry in enumerate(entries, 1)], "entry"))


def write_people(people: Iterable[RosterPerson]) -> str:
    """The roster as CSV."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(FIELDS)
    table.writerows([getattr(person, field) for field in FIELDS] for person in people)
    return out.getvalue()


def _find_columns(file: str, header: list[str], named: Mapping[str, str]) -> dict[str, int]:
    names = [_normalise(cell) for cell in header]
    places: dict[str, int] = {}
    for field, spellings in HEADERS.items():
        spelling = next((one for one in spellings if one in names), None)
        if spelling is not None:
            places[field] = names.index(spelling)
    if "canvas_id" in places and names[places["canvas_id"]] == "id" and not {"student", "lastname"} & set(names):
        del places["canvas_id"]  # a bare "ID" is Canvas' own only in a Canvas gradebook
    for field, title in named.items():
        if _normalise(title) not in names:
            raise GradingProblem(f"{file} has no column {shorten(title)}; its columns are {_list(header)}")
        places[field] = names.index(_normalise(title))
    if "name" not in places and not {"first", "last"} <= places.keys():
        raise GradingProblem(
            f"{file}, line 1: no column has the names of the people: it must be called name (or Full name, Student, First name and Last name), "
            f'and the columns are {_list(header)}; rename it, or say which one it is with `headway course init EXPORT --column name="TITLE"`'
        )
    return places


def _find_unused(header: list[str], used: Set[int]) -> tuple[str, ...]:
    """The columns that are not used, perhaps by mistake. An export has columns of its own: of these, only the ones with a similar name."""
    is_export = bool(EXPORTED & {_normalise(cell) for cell in header})
    rest = [cell.strip() for place, cell in enumerate(header) if place not in used and cell.strip()]
    near = {cell: difflib.get_close_matches(_normalise(cell), FIELDS, n=1, cutoff=0.75) for cell in rest}
    return tuple(f"{shorten(cell, 40)}{f' (did you mean {near[cell][0]}?)' if near[cell] else ''}" for cell in rest if near[cell] or not is_export)


def _normalise(cell: str) -> str:
    return " ".join(cell.replace("_", " ").lower().split())


def _list(names: Sequence[str]) -> str:
    shown = [shorten(name, 40) for name in names[:12]]
    return ", ".join(shown if len(names) <= 12 else [*shown, f"and {len(names) - 12} more"])


def _parse_person(file: str, line: int, cells: dict[str, str]) -> RosterPerson | None:
    """None for a row that is not about a learner."""
    name = cells.get("name", "") or f"{cells.get('first', '')} {cells.get('last', '')}".strip()
    role = cells.pop("role", "").lower()
    if name.lower() == "points possible" or name.lower() in TEST_STUDENTS or role in STAFF:
        return None
    if not any(cells.values()):  # Canvas writes "Manual Posting" below the titles of some assignments, in a row without a person
        return None
    if not name:
        raise GradingProblem(f"{file}, line {line}: the name is missing")
    moodle = cells.get("moodle_id", "")
    if numbered := re.fullmatch(r"\D*([0-9]+)", moodle):  # "Participant 123", also in another language
        moodle = numbered[1]
    known = {field: cells[field] for field in FIELDS if field in cells}
    return RosterPerson(**known | {"name": first_last(name), "moodle_id": moodle})


def _distinct(file: str, numbered: Sequence[tuple[int, RosterPerson]], word: str = "line") -> tuple[RosterPerson, ...]:
    """The people, with names completed where several have the same. GradingProblem if an id appears twice."""
    seen: dict[tuple[str, str], int] = {}
    for line, person in numbered:
        for field in UNIQUE:
            value = fold(getattr(person, field))
            if value and (field, value) in seen:
                raise GradingProblem(
                    f"{file}, {word} {line}: the {field} {shorten(getattr(person, field))} is also in {word} {seen[field, value]}; each person has one of their own"
                )
            seen[field, value] = line
    names = [fold(person.name) for _, person in numbered]
    people = []
    for line, person in numbered:
        if names.count(fold(person.name)) > 1:
            extra = next((getattr(person, field) for field in UNIQUE if getattr(person, field)), "")
            if not extra:
                raise GradingProblem(f"{file}, {word} {line}: two people are called {shorten(person.name)}; give each an email, a login or a number")
            person = replace(person, name=f"{person.name} ({extra})")
        people.append(person)
    return tuple(people)
