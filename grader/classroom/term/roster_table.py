"""Reads the roster, a CSV file next to course.toml, and the tables that learning platforms export; writes a roster.

The columns of a roster are the fields of RosterPerson; only `name` is required. The names of the columns of Canvas
(gradebook, groups), Moodle (grading worksheet, participants) and Gradescope (roster, grades) are recognised. For a
table in another language, the instructor names the columns.
"""

from __future__ import annotations

import csv
import difflib
import io
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from grader.classroom.intake.problems import GradingProblem
from grader.classroom.intake.roster import read_cells
from grader.classroom.judging.toml_values import suggest
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
EXPORTED = {"sis user id", "sis login id", "identifier", "sid"}  # a table with one of these has columns of its platform
TEST_STUDENTS = ("student, test", "test student")  # Canvas adds one to each gradebook


def read_people(path: Path, columns: Mapping[str, str] = MappingProxyType({})) -> Roster:
    """The roster in this file, or in a learning platform's export. GradingProblem, with the line, for an invalid row.

    `columns` has the titles of fields whose columns have other names.
    """
    rows = read_cells(path)
    if not rows:
        raise GradingProblem(f"{path.name} is empty; its first line names the columns: {','.join(FIELDS)}")
    header = rows[0][1]
    places = find_columns(path.name, header, columns)
    if not has_names(places):
        raise GradingProblem(
            f"{path.name}, line 1: no column has the names of the people: it must be called name (or Full name, "
            f"Student, First name and Last name), and the columns are {list_names(header, 12)}; rename it, or say "
            'which one it is with `headway course init EXPORT --column name="TITLE"`'
        )
    people: list[tuple[int, RosterPerson]] = []
    for line, cells in rows[1:]:
        known = {name: cells[place] for name, place in places.items() if place < len(cells)}
        if person := parse_person(f"{path.name}, line {line}", known):
            people.append((line, person))
    if not people:
        raise GradingProblem(f"{path.name} has a header but no people; write a row for each person")
    return Roster(_distinct(f"{path.name}, line", people), _find_unused(header, set(places.values())))


def parse_column_names(words: Iterable[str]) -> dict[str, str]:
    """The titles of columns by field, from `number=Matrikelnummer`. GradingProblem for an unknown field."""
    found = {}
    for word in words:
        field, equals, title = (part.strip() for part in word.partition("="))
        if field not in FIELDS or not title:
            near = suggest(field, FIELDS) if field not in FIELDS else ""
            how = f"write one of {', '.join(FIELDS)}, and the title of its column, like --column number=Matrikelnummer"
            raise GradingProblem(f"--column {shorten(word)}: {how}{near}")
        found[field] = title
    return found


def parse_people(where: str, entries: Sequence[dict[str, str]]) -> Roster:
    """The roster that course.toml itself contains."""
    return Roster(_distinct(f"{where}, entry", [(place, RosterPerson(**one)) for place, one in enumerate(entries, 1)]))


def write_people(people: Iterable[RosterPerson]) -> str:
    """The roster as CSV."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(FIELDS)
    table.writerows([getattr(person, field) for field in FIELDS] for person in people)
    return out.getvalue()


def find_columns(file: str, header: list[str], titles: Mapping[str, str]) -> dict[str, int]:
    """The places of the columns by field, of first and last names, and of roles; `titles` has those of some fields."""
    names = [_normalise(cell) for cell in header]
    places = {}
    for field, spellings in HEADERS.items():
        wanted = (_normalise(titles[field]),) if field in titles else spellings
        if spelling := next((one for one in wanted if one in names), None):
            places[field] = names.index(spelling)
        elif field in titles:
            columns = f"its columns are {list_names(header, 12)}"
            raise GradingProblem(f"{file} has no column {shorten(titles[field])}; {columns}")
    if places.get("canvas_id") == (names.index("id") if "id" in names else -1) and "canvas_id" not in titles:
        if not {"student", "lastname"} & set(names):
            del places["canvas_id"]  # a bare "ID" is Canvas' own only in a Canvas gradebook
    return places


def has_names(places: Mapping[str, int]) -> bool:
    return "name" in places or {"first", "last"} <= places.keys()


def _find_unused(header: list[str], used: Set[int]) -> tuple[str, ...]:
    """The columns that are not used, perhaps by mistake: of an export, only those with a similar name."""
    is_export = bool(EXPORTED & {_normalise(cell) for cell in header})
    unused = []
    for cell in [cell.strip() for place, cell in enumerate(header) if place not in used and cell.strip()]:
        near = difflib.get_close_matches(_normalise(cell), FIELDS, n=1, cutoff=0.75)
        if near or not is_export:
            unused.append(shorten(cell, 40) + (f" (did you mean {near[0]}?)" if near else ""))
    return tuple(unused)


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


def _distinct(where: str, numbered: Sequence[tuple[int, RosterPerson]]) -> tuple[RosterPerson, ...]:
    """The people, with names completed where several have the same. GradingProblem if an id appears twice."""
    seen: dict[tuple[str, str], int] = {}
    many = Counter(fold(person.name) for _, person in numbered)
    people = []
    for line, person in numbered:
        for field, value in person.ids.items():
            if (first := seen.setdefault((field, fold(value)), line)) != line:
                also = f"the {field} {shorten(value)} is also in {where.rpartition(' ')[2]} {first}"
                raise GradingProblem(f"{where} {line}: {also}; each person has one of their own")
        if many[fold(person.name)] > 1:
            if not person.ids:
                twice = f"two people are called {shorten(person.name)}"
                raise GradingProblem(f"{where} {line}: {twice}; give each an email, a login or a number")
            person = replace(person, name=f"{person.name} ({next(iter(person.ids.values()))})")
        people.append(person)
    return tuple(people)
