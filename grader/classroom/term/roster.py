"""The people of a course, and who of them an entry in an export, a submission or a rule means."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from functools import cached_property


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


FIELDS = tuple(one.name for one in fields(RosterPerson))
UNIQUE = ("email", "login", "number", "canvas_id", "moodle_id")


@dataclass(frozen=True)
class Roster:
    """People with distinct names: a name that two of them have is completed by an e-mail address, a login or a number."""

    people: tuple[RosterPerson, ...] = ()
    unused: tuple[str, ...] = field(default=(), compare=False)  # the columns of the table that say nothing about a person

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

    @cached_property
    def _by_key(self) -> dict[str, set[RosterPerson]]:
        found: dict[str, set[RosterPerson]] = {}
        for person in self.people:
            keys = {key for key in map(fold, (getattr(person, name) for name in UNIQUE)) if key}
            for key in keys | set(_spellings(person.name)) | {_squash(person.name), _squash(_last_first(person.name))}:
                found.setdefault(key, set()).add(person)
        return found


NO_ROSTER = Roster()


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
