"""Gives each person of a course a pseudonym such as "Learner 4821", and puts it in the place of the name.

Names are replaced before the gradebook sees a submission. So the gradebook, and every file that is made from it, has
pseudonyms only, and a copy of the folder does not reveal a name. The key is one file outside that folder.
"""

from __future__ import annotations

import csv
import io
import re
import secrets
from collections import ChainMap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

from grader.classroom.exports import format_table, spreadsheet_text
from grader.classroom.gradebook_file import FolderInUse, lock_folder, unlock_folder
from grader.classroom.intake.submissions import GradingProblem, Submission, add_slugs
from grader.classroom.intake.tables import read_text
from grader.classroom.judging.marks import GradedClass, Person
from grader.classroom.judging.rules import Rules
from grader.classroom.sanitize import line
from grader.classroom.term.course import Course
from grader.classroom.term.deliveries import NameNote, Note
from grader.classroom.term.roster import UNIQUE as IDS
from grader.classroom.term.roster import NamedPerson, Roster, RosterPerson, describe_several, find_people, fold
from grader.files import make_folders, problem, write_whole

KEY_NAME = "anonymous_key.csv"
KEY_COLUMNS = ("pseudonym", "name", *IDS)
LOCK_SECONDS = 20  # to wait for another command that adds people to the key


# ---- the key: a CSV file, readable by its owner only, with a row for each person


@dataclass(frozen=True)
class KeyEntry:
    pseudonym: str
    name: str
    ids: dict[str, str] = field(default_factory=dict)  # those of IDS that are known

    def shares_an_id(self, ids: dict[str, str]) -> bool:
        return any(value and self.ids.get(name) == value for name, value in ids.items())

    def contradicts(self, ids: dict[str, str]) -> bool:
        return any(value and self.ids.get(name, value) != value for name, value in ids.items())

    def add_ids(self, ids: dict[str, str]) -> KeyEntry:
        return replace(self, ids={name: value for name in IDS if (value := self.ids.get(name) or ids.get(name))})


def read_key(path: Path) -> list[KeyEntry]:
    """The people in the key. GradingProblem, one sentence, if it is missing or damaged."""
    shown, way_out = line(str(path)), "or name another one with --key FILE"
    if not path.is_file():
        raise GradingProblem(f"the key of the pseudonyms, {shown}, is missing; put it back, or name it with --key FILE")
    try:
        cells = list(csv.reader(io.StringIO(read_text(path), newline="")))
    except csv.Error:
        cells = [[]]  # no header, so the sentence below describes it
    header, *rows = cells or [[*KEY_COLUMNS]]  # a key is empty if a command was killed
    is_complete = tuple(header) == KEY_COLUMNS and all(len(row) == len(KEY_COLUMNS) for row in rows)
    if not is_complete or len({row[0] for row in rows}) < len(rows):
        changed = "is not a key of pseudonyms, or somebody has changed it"
        raise GradingProblem(f"{shown} {changed}; put back a copy, {way_out}")
    return [KeyEntry(row[0], row[1], {name: value for name, value in zip(IDS, row[2:]) if value}) for row in rows]


def write_key(path: Path, entries: list[KeyEntry]) -> None:
    rows = [[entry.pseudonym, entry.name, *(entry.ids.get(name, "") for name in IDS)] for entry in entries]
    try:
        write_whole(path, format_table([[*KEY_COLUMNS], *rows]), private=True)
    except OSError as error:
        raise GradingProblem(problem(error, f"write the key {line(str(path))}")) from error


@contextmanager
def lock_key(path: Path) -> Iterator[None]:
    """Keep other commands from adding people to this key during the block."""
    make_folders(path.parent, private=True)
    try:
        lock = lock_folder(path.parent, LOCK_SECONDS)
    except FolderInUse:
        raise GradingProblem(f"{line(str(path))} is in use by another command; wait until that one ends") from None
    try:
        yield
    finally:
        unlock_folder(lock)


# ---- names and pseudonyms


Identity = tuple[str, dict[str, str]]  # a name, and the ids that are known
_WORD = re.compile(r"[^\W_]+")
MIN_LENGTH = 3  # characters of a part of a name, or of an id


class Pseudonyms:
    """The people in one key. The numbers are random: they say nothing about the order of the names."""

    def __init__(self, path: Path, entries: list[KeyEntry]) -> None:
        self.path, self.entries = path, entries

    @classmethod
    def read(cls, path: Path) -> Pseudonyms:
        """GradingProblem if there is no key."""
        return cls(path, read_key(path))

    def find(self, text: str) -> str:
        """The pseudonym of this person, who is named by a name or an id; any other text unchanged.

        GradingProblem if it means several people.
        """
        known = [NamedPerson(one.name, one.pseudonym, tuple(one.ids.values())) for one in self.entries]
        found = find_people(text, known) or find_people(spreadsheet_text(text), known)
        if len(found) > 1:
            ways = describe_several(text, [NamedPerson(one.slug) for one in found])
            raise GradingProblem(f"{ways}; {line(self.path.name)} says who they are")
        return found[0].slug if found else text

    def entry(self, pseudonym: str) -> KeyEntry | None:
        return next((one for one in self.entries if one.pseudonym == pseudonym), None)

    def scrub(self, text: str) -> str:
        return Scrubber(self.entries).scrub(text)

    def hide_course(self, course: Course) -> Course:
        """The course with pseudonyms in the roster and in the rules, in their order, and without ids.

        The key gets people who are new in the roster.
        """
        key, owned = add_people(self.path, [(person.name, person.ids) for person in course.roster.people])
        self.entries = key.entries
        roster = _hide_roster(course.roster, owned)
        hidden = {one.name: self._hide_rules(one.rules, roster) for one in course.assignments}
        return replace(course.with_rules(hidden), roster=roster)

    def _hide_rules(self, rules: Rules, roster: Roster) -> Rules:
        extensions = {spreadsheet_text(name): until for name, until in rules.extensions.items()}
        found = {one.pseudonym: extensions[one.name] for one in self.entries if one.name in extensions}
        return replace(rules, extensions=found, find_missing=roster.find_missing)

    def show_class(self, graded: GradedClass) -> GradedClass:
        """The class with its names, for the tables of learning platforms."""
        names = {entry.pseudonym: entry.name for entry in self.entries}

        def show(people: Iterable[Person]) -> tuple[Person, ...]:
            return tuple(replace(one, name=names.get(one.name, one.name)) for one in people)

        return replace(graded, people=show(graded.people), missing=show(graded.missing))

    def show_ids(self, graded: GradedClass) -> dict[str, dict[str, str]]:
        """The ids of each person of an anonymous class, by file name."""
        return {one.slug: entry.ids for one in graded.people if (entry := self.entry(one.name))}


def _hide_roster(roster: Roster, owned: Sequence[KeyEntry]) -> Roster:
    """The roster in the order of the pseudonyms: its own order would say who is who.

    A section or the name of a group might, too: members of a group stay together, under another name.
    """
    groups: dict[str, str] = {}
    hidden = []
    for person, entry in sorted(zip(roster.people, owned, strict=True), key=lambda pair: pair[1].pseudonym):
        group = groups.setdefault(fold(person.group), f"group of {entry.pseudonym}" if person.group else "")
        hidden.append(RosterPerson(entry.pseudonym, group=group))
    return Roster(tuple(hidden))


def add_people(path: Path, identities: Sequence[Identity]) -> tuple[Pseudonyms, list[KeyEntry]]:
    """The pseudonyms, and the entry of each of these people; the key gets those who are new."""
    with lock_key(path):
        entries = read_key(path) if path.is_file() else []
        before = list(entries)
        cells = [
            (spreadsheet_text(name), {field: spreadsheet_text(value) for field, value in ids.items()})
            for name, ids in identities
        ]
        owned = _assign(entries, cells)
        if entries != before or not path.is_file():
            write_key(path, entries)
    return Pseudonyms(path, entries), [entries[place] for place in owned]


def _assign(entries: list[KeyEntry], identities: Sequence[Identity]) -> list[int]:
    """The place of each person's entry: found by an id, else by the name, else new."""
    owned: dict[int, int] = {}

    def take(number: int, fitting: Iterable[int], only_one: bool) -> None:
        free = [place for place in fitting if place not in owned.values()]
        if len(free) == 1 or (free and not only_one):
            owned[number] = free[0]

    for number, (_, ids) in enumerate(identities):
        fitting = [place for place, one in enumerate(entries) if one.shares_an_id(ids) and not one.contradicts(ids)]
        take(number, fitting, only_one=True)
    for number, (name, ids) in enumerate(identities):
        if number not in owned:
            fitting = [place for place, one in enumerate(entries) if one.name == name and not one.contradicts(ids)]
            take(number, fitting, only_one=False)
    taken = {entry.pseudonym for entry in entries}
    known = {text for name, ids in identities for text in (name, *ids.values())}
    for number, (name, ids) in enumerate(identities):
        if number not in owned:
            entries.append(KeyEntry(_new_pseudonym(taken, known), name))
            owned[number] = len(entries) - 1
        own = entries[owned[number]]
        of_others = {(field, value) for entry in entries if entry is not own for field, value in entry.ids.items()}
        entries[owned[number]] = own.add_ids(dict(ids.items() - of_others))
    return [owned[number] for number in range(len(identities))]


def _new_pseudonym(taken: set[str], known: set[str]) -> str:
    """One that nobody has, and whose number is no part of anybody's name or id."""
    text = " ".join(known)
    for attempt in count():
        digits = 4 + attempt // 2000  # a number with more digits is surely free
        number = str(secrets.randbelow(9 * 10 ** (digits - 1)) + 10 ** (digits - 1))
        pseudonym = f"Learner {number}"
        if pseudonym not in taken and number not in text:
            taken.add(pseudonym)
            return pseudonym
    raise AssertionError


def hide_names(
    path: Path, submissions: Sequence[Submission], roster: Roster, rules: Rules, notes: Sequence[Note]
) -> tuple[Pseudonyms, list[Submission], Rules, list[str]]:
    """The submissions, the rules and the notes with pseudonyms.

    The key at `path` gets everybody who is new, also people without a submission.
    """
    _, of_roster = add_people(path, [(person.name, person.ids) for person in roster.people])
    _, owned = add_people(path, [(submission.name, submission.ids) for submission in submissions])
    named = [*(person.name for person in roster.people), *(submission.name for submission in submissions)]
    others = [name for name in rules.extensions if name not in named]
    pseudonyms, of_rules = add_people(path, [(name, {}) for name in others])
    scrubber = Scrubber(pseudonyms.entries)
    hidden = [_hide_submission(submission, entry, scrubber) for submission, entry in zip(submissions, owned)]
    submitted = {one.name for one in hidden}
    owners = zip((*named, *others), (*of_roster, *owned, *of_rules), strict=True)
    pseudonym_of = {name: entry.pseudonym for name, entry in owners}
    extensions = {pseudonym_of[name]: until for name, until in rules.extensions.items()}

    def rename(name: str) -> str:
        return pseudonym_of.get(name) or scrubber.scrub(name)

    said = [scrubber.scrub(str(note.rename(rename) if isinstance(note, NameNote) else note)) for note in notes]
    if absent := sorted(set(extensions) - submitted):
        key_has = f"{path.name} has the names that your rules use"
        said.append(f"[extensions]: no submission is from {', '.join(absent)}; {key_has}")
    kept = {name: until for name, until in extensions.items() if name in submitted}
    find_missing = _hide_roster(roster, of_roster).find_missing
    return pseudonyms, add_slugs(hidden), replace(rules, extensions=kept, find_missing=find_missing), said


def _hide_submission(submission: Submission, entry: KeyEntry, scrubber: Scrubber) -> Submission:
    """`group` stays: it is only compared, and never written."""

    def scrub(texts: Iterable[str]) -> tuple[str, ...]:
        return tuple(scrubber.scrub(text, entry) for text in texts)

    return replace(
        submission,
        name=entry.pseudonym,
        ids={},
        problem=scrubber.scrub(submission.problem, entry),
        notes=scrub(submission.notes),
        broken=dict(zip(submission.broken, scrub(submission.broken.values()))),
    )


class Scrubber:
    """Knows the names and ids of the people in a key, in the ways in which file names spell them."""

    def __init__(self, entries: Iterable[KeyEntry]) -> None:
        self._pseudonyms: dict[str, str] = {}  # by the words of a name or an id, in lower case and joined
        self._most_words = 1
        for entry in entries:
            words = _WORD.findall(entry.name)
            ids = [*entry.ids.values(), entry.ids.get("email", "").partition("@")[0]]
            spellings = [_WORD.findall(text) for text in ids if len(text) >= MIN_LENGTH]
            for spelling in (words, [*words[-1:], *words[:-1]], *spellings):
                if spelling:
                    self._pseudonyms.setdefault("".join(spelling).casefold(), entry.pseudonym)
                    self._most_words = max(self._most_words, len(spelling))

    def scrub(self, text: str, owner: KeyEntry | None = None) -> str:
        """The text with pseudonyms. Sentences about `owner` also lose single parts of the name.

        An ordinary word that is also a name is replaced, too: that is better than a name that stays.
        """
        parts = [word for word in _WORD.findall(owner.name) if len(word) >= MIN_LENGTH] if owner else []
        known = ChainMap(self._pseudonyms, {word.casefold(): owner.pseudonym for word in parts} if owner else {})
        words = list(_WORD.finditer(text))
        pieces, end, place = [], 0, 0
        while place < len(words):
            for many in range(min(self._most_words, len(words) - place), 0, -1):
                if found := known.get("".join(word[0] for word in words[place : place + many]).casefold()):
                    pieces += [text[end : words[place].start()], found]
                    place += many - 1
                    end = words[place].end()
                    break
            place += 1
        return "".join([*pieces, text[end:]])
