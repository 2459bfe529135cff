"""Finds the person whom an instructor names: by name, e-mail address, login, number or id, in small or capital letters, with or without accents."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from grader.classroom.sanitize import line, shorten
from grader.classroom.term.roster import UNIQUE, RosterPerson, first_last, fold

NEAR = 0.75  # how similar a name must be to be suggested, from 0 to 1
SHOWN = 6  # people in one sentence


@dataclass(frozen=True)
class Known:
    """A person who can be named."""

    name: str
    slug: str = ""  # the name of their files, unique in a gradebook
    ids: tuple[str, ...] = ()  # e-mail address, login, number, ids of platforms
    about: str = ""  # what tells this person from others of the same name
    written: str = ""  # what to write instead of the name

    @property
    def offer(self) -> str:
        """How a message names this person: what to write in quotes, and what tells this person apart."""
        return line(f'"{self.written or self.name}"' + (f" ({self.about})" if self.about else ""))


def from_roster(person: RosterPerson) -> Known:
    """A person of the roster."""
    return from_ids(person.name, "", {}, person)


def from_ids(name: str, slug: str, ids: Mapping[str, str], person: RosterPerson | None) -> Known:
    """A person of a gradebook: with the ids that a platform wrote into the submission, and those of the roster."""
    known = {field: getattr(person, field) for field in UNIQUE} if person else {}
    found = tuple(dict.fromkeys(filter(None, [*known.values(), *ids.values()])))
    about = [*found[:1], *(f"{field} {value}" for field in ("section", "group") if person and (value := getattr(person, field)))]
    return Known(name, slug, found, ", ".join(text for text in about if text not in name))


def find_people(text: str, people: Sequence[Known]) -> list[Known]:
    """Those whom this text means; several if it is not clear."""
    wanted = text.strip()
    exactly = [one for one in people if wanted in (one.name, one.slug, line(one.name), f"{line(one.name)} ({one.slug})")]
    return exactly or [one for one in people if _keys(wanted) & _all_keys(one)]


def describe_several(text: str, found: Sequence[Known]) -> str:
    """A sentence with what to write for each of these people."""
    names = [one.name for one in found]
    offers = [(one if one.written or names.count(one.name) == 1 else replace(one, written=f"{one.name} ({one.slug})")).offer for one in found]
    more = f" or one of {len(offers) - SHOWN} others" if len(offers) > SHOWN else ""
    return line(f"{len(found)} people are called {shorten(text)}; write {' or '.join(offers[:SHOWN])}{more}", 2000)


def suggest_person(text: str, people: Sequence[Known]) -> str:
    """The end of a sentence about a name that is unknown: people with a similar name; "" if there is none."""
    spellings = {key: one for one in people for key in _keys(_base_name(one))}
    near = [spellings[key] for key in difflib.get_close_matches(plain(text), spellings, n=3, cutoff=NEAR)]
    words = set(plain(text).split())
    near += [one for one in people if words and words <= set(plain(one.name).split())]
    offers = list(dict.fromkeys(one.offer for one in near))
    return f"; did you mean {' or '.join(offers[:SHOWN])}?" if offers else ""


def plain(text: str) -> str:
    """The text in small letters and without accents."""
    decomposed = unicodedata.normalize("NFKD", fold(text))
    return " ".join("".join(character for character in decomposed if not unicodedata.combining(character)).split())


def _keys(text: str) -> set[str]:
    return {plain(text), plain(first_last(text))} - {""}


def _all_keys(one: Known) -> set[str]:
    return _keys(one.name) | _keys(_base_name(one)) | {plain(text) for text in (one.slug, *one.ids) if text}


def _base_name(one: Known) -> str:
    """The name without the id that completes it where several people have the same."""
    completed = re.fullmatch(r"(.+) \((.+)\)", one.name)
    return completed[1] if completed and completed[2] in one.ids else one.name
