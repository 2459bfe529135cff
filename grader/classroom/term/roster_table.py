"""Reads the roster, a CSV file next to course.toml, and the tables that learning platforms export; writes a roster.

The columns of a roster are the fields of RosterPerson; only `name` is required. The names of the columns of Canvas
(gradebook, groups), Moodle (grading worksheet, participants) and Gradescope (roster, grades) are recognised.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from grader.classroom.intake.problems import GradingProblem
from grader.classroom.intake.roster import read_cells
from grader.classroom.sanitize import list_names, shorten
from grader.classroom.term.roster import FIELDS, Roster, RosterPerson, first_last, fold

# The header cells, in lower case and with spaces for underscores, that mean a field.
HEADERS = {
    "name": ("name", "full name", "student", "student name", "learner"),
    "first": ("first name", "given name", "first names", "firstname"),
    "last": ("last name", "surname", "family name", "lastname"),
    "email": ("email", "e-mail", "email address", "e-mail address", "mail"),
    "login": ("login", "sis login id", "login id", "username", "user name"),
    "number": (
        "number", "student number", "student id", "sid", "sis user id", "user id", "id number", "matriculation number",
    ),
    "canvas_id": ("canvas id", "canvas user id", "id"),
    "moodle_id": ("moodle id", "identifier", "participant number"),
    "section": ("section", "sections", "section name"),
    "group": ("group", "groups", "group name", "team"),
    "role": ("role", "roles"),
}  # fmt: skip
STAFF = ("instructor", "teacher", "ta", "teaching assistant", "reader", "manager", "tutor", "non-editing teacher")
TEST_STUDENTS = ("student, test", "test student")  # Canvas adds one to each gradebook


def read_people(path: Path) -> Roster:
    """The roster in this file, or in a learning platform's export. GradingProblem for an invalid row."""
    rows = read_cells(path)
    if not rows:
        raise GradingProblem(f"{path.name} is empty; its first line names the columns: {','.join(FIELDS)}")
    header = rows[0][1]
    places = find_columns(header)
    if not has_names(places):
        raise GradingProblem(
            f"{path.name}, line 1: no column has the names of the people: it must be called name (or Full name, "
            f"Student, First name and Last name), and the columns are {list_names(header, 12)}; rename it"
        )
    people: list[tuple[int, RosterPerson]] = []
    for line, cells in rows[1:]:
        known = {name: cells[place] for name, place in places.items() if place < len(cells)}
        if person := parse_person(f"{path.name}, line {line}", known):
            people.append((line, person))
    if not people:
        raise GradingProblem(f"{path.name} has a header but no people; write a row for each person")
    return Roster(_distinct(path.name, people))


def write_people(people: Iterable[RosterPerson]) -> str:
    """The roster as CSV."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(FIELDS)
    table.writerows([getattr(person, field) for field in FIELDS] for person in people)
    return out.getvalue()


def find_columns(header: list[str]) -> dict[str, int]:
    """The places of the columns by field, of first and last names, and of roles."""
    names = [_normalise(cell) for cell in header]
    places = {}
    for field, spellings in HEADERS.items():
        if spelling := next((one for one in spellings if one in names), None):
            places[field] = names.index(spelling)
    if "id" in names and places["canvas_id"] == names.index("id") and not {"student", "lastname"} & set(names):
        del places["canvas_id"]  # a bare "ID" is Canvas' own only in a Canvas gradebook
    return places


def has_names(places: Mapping[str, int]) -> bool:
    return "name" in places or {"first", "last"} <= places.keys()


def _normalise(cell: str) -> str:
    return " ".join(cell.replace("_", " ").lower().split())


def parse_person(where: str, cells: dict[str, str], needs_name: bool = True) -> RosterPerson | None:
    """The learner in a row; None for a row that is not about a learner."""
    name = cells.get("name", "") or f"{cells.get('first', '')} {cells.get('last', '')}".strip()
    if name.lower() in ("points possible", *TEST_STUDENTS) or cells.pop("role", "").lower() in STAFF:
        return None
    if not any(cells.values()):  # Canvas writes "Manual Posting" below the titles of some assignments
        return None
    if not name and needs_name:
        raise GradingProblem(f"{where}: the name is missing")
    known = {field: cells[field] for field in FIELDS if field in cells} | {"name": first_last(name)}
    if numbered := re.fullmatch(r"\D*([0-9]+)", cells.get("moodle_id", "")):  # "Participant 123", in any language
        known["moodle_id"] = numbered[1]
    return RosterPerson(**known)


def _distinct(file: str, numbered: Sequence[tuple[int, RosterPerson]]) -> tuple[RosterPerson, ...]:
    """The people, with names completed where several have the same. GradingProblem if an id appears twice."""
    seen: dict[tuple[str, str], int] = {}
    many = Counter(fold(person.name) for _, person in numbered)
    people = []
    for line, person in numbered:
        for field, value in person.ids.items():
            if (first := seen.setdefault((field, fold(value)), line)) != line:
                also = f"the {field} {shorten(value)} is also in line {first}"
                raise GradingProblem(f"{file}, line {line}: {also}; each person has one of their own")
        if many[fold(person.name)] > 1:
            if not person.ids:
                twice = f"two people are called {shorten(person.name)}"
                raise GradingProblem(f"{file}, line {line}: {twice}; give each an email, a login or a number")
            person = replace(person, name=f"{person.name} ({next(iter(person.ids.values()))})")
        people.append(person)
    return tuple(people)
