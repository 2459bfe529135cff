"""The people of a course: their table, and whom an entry in an export, a submission or an instructor means.

The roster is a CSV file next to course.toml, whose columns are the fields of RosterPerson; only `name` is required. The
names of the columns of Canvas (gradebook, groups), Moodle (grading worksheet, participants) and Gradescope (roster,
grades) are recognised, too.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path

from grader.classroom.intake.submissions import GradingProblem
from grader.classroom.intake.tables import read_cells
from grader.classroom.sanitize import line, list_names, shorten

MOST_OFFERED = 6  # people in one sentence


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

    @property
    def ids(self) -> dict[str, str]:
        """The ids that are known, by field."""
        return {name: value for name in UNIQUE if (value := getattr(self, name))}


FIELDS = tuple(one.name for one in fields(RosterPerson))
UNIQUE = ("email", "login", "number", "canvas_id", "moodle_id")


@dataclass(frozen=True)
class Roster:
    """People with distinct names: a name that two of them have is completed by an e-mail address, login or number."""

    people: tuple[RosterPerson, ...] = ()

    def find(self, text: str) -> RosterPerson | None:
        """Return the person with this name or id; None unless exactly one person has it."""
        found = {person for key in {fold(text), fold(first_last(text))} - {""} for person in self._by_key.get(key, ())}
        if not found and (numbered := re.fullmatch(r"(.+) \((.+)\)", text.strip())):  # of several people with one name
            person = self.find(numbered[2])
            return person if person and fold(person.name).startswith(fold(numbered[1])) else None
        return found.pop() if len(found) == 1 else None

    @property
    def named_people(self) -> list[NamedPerson]:
        return [NamedPerson(person.name, "", tuple(person.ids.values())) for person in self.people]

    def group(self, name: str) -> tuple[RosterPerson, ...]:
        """The people of this group, in the roster's order."""
        return tuple(person for person in self.people if person.group and fold(person.group) == fold(name))

    def find_missing(self, names: Iterable[str]) -> list[str]:
        """The people whom none of these names or ids means, in the roster's order."""
        found = {self.find(name) for name in names}
        return [person.name for person in self.people if person not in found]

    @cached_property
    def _by_key(self) -> dict[str, set[RosterPerson]]:
        found: dict[str, set[RosterPerson]] = {}
        for person in self.people:
            first, _, last = person.name.rpartition(" ")
            in_file_names = {re.sub(r"[\W_]", "", fold(name)) for name in (person.name, f"{last} {first}")}  # of Canvas
            spellings = {fold(text) for text in (person.name, first_last(person.name), *person.ids.values())}
            for key in spellings | in_file_names:
                found.setdefault(key, set()).add(person)
        return found


NO_ROSTER = Roster()


def first_last(name: str) -> str:
    """ "Alpha One" for "One, Alpha"."""
    last, comma, first = name.partition(",")
    return f"{first.strip()} {last.strip()}" if comma and first.strip() and last.strip() and "," not in first else name


def fold(text: str) -> str:
    """The text in small letters."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def plain(text: str) -> str:
    """The text in small letters and without accents."""
    decomposed = unicodedata.normalize("NFKD", fold(text))
    return " ".join("".join(character for character in decomposed if not unicodedata.combining(character)).split())


@dataclass(frozen=True)
class NamedPerson:
    """A person whom an instructor can name, of a roster, a gradebook or a key of pseudonyms."""

    name: str
    slug: str = ""  # the name of their files, unique in a gradebook
    ids: tuple[str, ...] = ()  # e-mail address, login, number, ids of platforms

    @property
    def plain_names(self) -> set[str]:
        """Ways to write the name; also without the id that completes it where several people have the same."""
        completed = re.fullmatch(r"(.+) \((.+)\)", self.name)
        names = {self.name, completed[1] if completed and completed[2] in self.ids else self.name}
        return {plain(text) for name in names for text in (name, first_last(name))}


def find_people(text: str, people: Sequence[NamedPerson]) -> list[NamedPerson]:
    """Those whom this text means: by name or id, also without capitals and accents; several if it is not clear."""
    wanted = text.strip()
    shown = [(one, line(one.name)) for one in people]
    exactly = [one for one, name in shown if wanted in (one.name, one.slug, name, f"{name} ({one.slug})")]
    keys = {plain(wanted), plain(first_last(wanted))} - {""}
    return exactly or [one for one in people if keys & {*one.plain_names, *map(plain, (one.slug, *one.ids))}]


def describe_several(text: str, found: Sequence[NamedPerson]) -> str:
    """A sentence with what to write for each of these people."""
    names = [one.name for one in found]
    offers = [one.name if names.count(one.name) == 1 else f"{one.name} ({one.slug})" for one in found]
    more = [f"one of {len(offers) - MOST_OFFERED} others"] if len(offers) > MOST_OFFERED else []
    ways = " or ".join([*(f'"{offer}"' for offer in offers[:MOST_OFFERED]), *more])
    return line(f"{len(found)} people are called {shorten(text)}; write {ways}", 2000)


# ---- the roster as a file


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
    for number, cells in rows[1:]:
        known = {name: cells[place] for name, place in places.items() if place < len(cells)}
        if person := parse_person(f"{path.name}, line {number}", known):
            people.append((number, person))
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
    for number, person in numbered:
        for field, value in person.ids.items():
            if (first := seen.setdefault((field, fold(value)), number)) != number:
                also = f"the {field} {shorten(value)} is also in line {first}"
                raise GradingProblem(f"{file}, line {number}: {also}; each person has one of their own")
        if many[fold(person.name)] > 1:
            if not person.ids:
                twice = f"two people are called {shorten(person.name)}"
                raise GradingProblem(f"{file}, line {number}: {twice}; give each an email, a login or a number")
            person = replace(person, name=f"{person.name} ({next(iter(person.ids.values()))})")
        people.append(person)
    return tuple(people)
