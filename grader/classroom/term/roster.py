"""The people of a course, and who of them an entry in an export, a submission, a rule or an instructor means."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

from grader.classroom.sanitize import line, shorten

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
