"""The people of a course, and who of them an entry in an export, a submission or a rule means.

The roster is a CSV file next to course.toml. Its columns are the fields of RosterPerson; only `name` is required. A table that a learning platform
exported is read as well: the names of its columns are recognised (Canvas gradebook, Moodle grading worksheet and participants, Gradescope roster).
"""

from __future__ import annotations

import csv
import difflib
import io
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path

from grader.classroom.intake.problems import GradingProblem
from grader.classroom.intake.roster import read_cells
from grader.classroom.sanitize import shorten

# The header cells, in lower case, that mean a field. The first one is what the roster itself uses.
HEADERS = {
    "name": ("name", "full name", "student", "student name", "learner"),
    "first": ("first name", "given name", "first names", "firstname"),
    "last": ("last name", "surname", "family name", "lastname"),
    "email": ("email", "e-mail", "email address", "e-mail address", "mail"),
    "login": ("login", "sis login id", "login id", "username", "user name"),
    "number": ("number", "student number", "student id", "sid", "sis user id", "id number", "matriculation number"),
    "canvas_id": ("canvas_id", "canvas id", "id"),
    "moodle_id": ("moodle_id", "moodle id", "identifier", "participant number"),
    "section": ("section", "sections", "section name"),
    "group": ("group", "groups", "group name", "team"),
    "role": ("role", "roles"),
}
STAFF = ("instructor", "teacher", "ta", "teaching assistant", "reader", "manager", "tutor", "non-editing teacher")
TEST_STUDENTS = ("student, test", "test student")  # Canvas adds one to each gradebook


@dataclass(frozen=True)
class RosterPerson:
    name: str
    email: str = ""
    login: str = ""
    number: str = ""  # the university's student number
    canvas_id: str = ""
    moodle_id: str = ""  # of "Participant 123" in a grading worksheet, and in the names of submitted files
    section: str = ""
    group: str = ""


FIELDS = tuple(field.name for field in fields(RosterPerson))
UNIQUE = ("email", "login", "number", "canvas_id", "moodle_id")


@dataclass(frozen=True)
class Roster:
    """People with distinct names: a name that two of them have is completed by an e-mail address, a login or a number."""

    people: tuple[RosterPerson, ...] = ()

    def find(self, text: str) -> RosterPerson | None:
        """Return the person with this name or id; None unless exactly one person has it."""
        found = {person for key in _spellings(text) for person in self._by_key.get(key, ())}
        if not found and (numbered := re.fullmatch(r"(.+) \((.+)\)", text.strip())):  # as submissions of people with the same name are called
            person = self.find(numbered[2])
            return person if person and fold(person.name).startswith(fold(numbered[1])) else None
        return found.pop() if len(found) == 1 else None

    def group(self, name: str) -> tuple[RosterPerson, ...]:
        """The people of this group, in the roster's order."""
        return tuple(person for person in self.people if person.group and fold(person.group) == fold(name))

    def find_missing(self, names: Iterable[str]) -> list[str]:
        """The people whom none of these names or ids means, in the roster's order."""
        found = {self.find(name) for name in names}
        return [person.name for person in self.people if person not in found]

    def suggest(self, text: str) -> str:
        """The end of a sentence about a name that is not in the roster."""
        names = [person.name for person in self.people]
        near = difflib.get_close_matches(text, names, n=1, cutoff=0.5)
        return f"; did you mean {shorten(near[0])}?" if near else ""

    @cached_property
    def _by_key(self) -> dict[str, set[RosterPerson]]:
        found: dict[str, set[RosterPerson]] = {}
        for person in self.people:
            keys = {key for key in map(fold, (getattr(person, field) for field in UNIQUE)) if key}
            for key in keys | set(_spellings(person.name)) | {_squash(person.name), _squash(_last_first(person.name))}:
                found.setdefault(key, set()).add(person)
        return found


NO_ROSTER = Roster()


def read_people(path: Path) -> Roster:
    """The roster in this file, or in a learning platform's export. GradingProblem, with the line, for an invalid row."""
    rows = read_cells(path)
    if not rows:
        raise GradingProblem(f"{path.name} is empty; its first line names the columns: {','.join(FIELDS)}")
    places = _find_columns(path.name, rows[0][1])
    people: list[tuple[int, RosterPerson]] = []
    for line, cells in rows[1:]:
        person = _parse_person(path.name, line, {name: cells[place] for name, place in places.items() if place < len(cells)})
        if person is not None:
            people.append((line, person))
    if not people:
        raise GradingProblem(f"{path.name} has a header but no people; write a row for each person")
    return Roster(_distinct(path.name, people))


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


def _find_columns(file: str, header: list[str]) -> dict[str, int]:
    names = [cell.strip().lower() for cell in header]
    places: dict[str, int] = {}
    for field, spellings in HEADERS.items():
        for spelling in spellings:
            if spelling in names:
                places[field] = names.index(spelling)
                break
    if "canvas_id" in places and names[places["canvas_id"]] == "id" and not {"student", "lastname"} & set(names):
        del places["canvas_id"]  # a bare "ID" is Canvas' own only in a Canvas gradebook
    if "name" not in places and not {"first", "last"} <= places.keys():
        known = "name (or Full name, Student, First name and Last name)"
        near = difflib.get_close_matches("name", names, n=1, cutoff=0.6)
        offer = f"; is {shorten(near[0])} the column of names? Then call it name" if near else ""
        raise GradingProblem(f"{file}, line 1: no column has the names of the people: it must be called {known}{offer}")
    return places


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
    moodle = re.sub(r"(?i)^participant\s*", "", cells.get("moodle_id", ""))
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


def _spellings(text: str) -> list[str]:
    """The keys under which a name is found: as it is, with the surname last, and without a number in brackets."""
    return list(dict.fromkeys(filter(None, (fold(text), fold(first_last(text))))))


def first_last(name: str) -> str:
    """"Alpha One" for "One, Alpha"."""
    last, comma, first = name.partition(",")
    return f"{first.strip()} {last.strip()}" if comma and first.strip() and last.strip() and "," not in first else name


def _last_first(name: str) -> str:
    first, _, last = name.rpartition(" ")
    return f"{last} {first}"


def _squash(name: str) -> str:
    """As Canvas writes a name in the name of a file: "onealpha"."""
    return re.sub(r"[\W_]", "", fold(name))


def fold(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
