"""Gives each person of a course a pseudonym such as "Learner 4821", and puts it in the place of the name."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

from grader.classroom.anonymous.key_file import IDS, KeyEntry, lock_key, read_key, to_cell, write_key
from grader.classroom.anonymous.scrubbing import Scrubber
from grader.classroom.intake.problems import GradingProblem
from grader.classroom.intake.submissions import Submission, add_slugs
from grader.classroom.judging.graded_class import GradedClass
from grader.classroom.judging.rules import Rules
from grader.classroom.sanitize import line
from grader.classroom.term.course_file import Course
from grader.classroom.term.name_notes import NameNote, Note
from grader.classroom.term.person_finder import Known, describe_several, find_people
from grader.classroom.term.roster import Roster, RosterPerson, fold

Identity = tuple[str, dict[str, str]]  # a name, and the ids that are known
LARGE_SECTION = 5  # a section of fewer people would help to find out who somebody is


class Pseudonyms:
    """The people in one key. The numbers are random: they say nothing about the order of the names."""

    def __init__(self, path: Path, entries: list[KeyEntry]) -> None:
        self.path, self.entries = path, entries

    @classmethod
    def read(cls, path: Path) -> Pseudonyms:
        """GradingProblem if there is no key."""
        return cls(path, read_key(path))

    def find(self, text: str) -> str:
        """The pseudonym of this person, who is named by a name or an id; any other text unchanged. GradingProblem if it means several people."""
        known = [Known(one.name, one.pseudonym, tuple(one.ids.values()), written=one.pseudonym) for one in self.entries]
        found = find_people(text, known) or find_people(to_cell(text), known)
        if len(found) > 1:
            raise GradingProblem(f"{describe_several(text, found)}; {line(self.path.name)} says who they are")
        return found[0].slug if found else text

    def entry(self, pseudonym: str) -> KeyEntry | None:
        return next((one for one in self.entries if one.pseudonym == pseudonym), None)

    def scrub(self, text: str) -> str:
        return Scrubber(self.entries).scrub(text)

    def hide_course(self, course: Course) -> Course:
        """The course with pseudonyms in the roster and in the rules, in their order, and without ids. The key gets people who are new in the roster."""
        key, owned = add_people(self.path, [_identity(person) for person in course.roster.people])
        self.entries = key.entries
        roster = _hide_roster(course.roster, owned)
        return replace(course, is_anonymous=True, roster=roster, assignments=tuple(replace(one, rules=self.hide_rules(one.rules, roster)) for one in course.assignments))

    def hide_rules(self, rules: Rules, roster: Roster) -> Rules:
        """The rules with pseudonyms; `roster` has them already."""
        extensions = {to_cell(name): until for name, until in rules.extensions.items()}
        found = {one.pseudonym: extensions[one.name] for one in self.entries if one.name in extensions}
        return replace(rules, extensions=found, find_missing=roster.find_missing)

    def hide_class(self, graded: GradedClass) -> GradedClass:
        """A class that was graded with names, with pseudonyms. The key gets people who are new."""
        everybody = [*graded.people, *graded.missing]
        key, owned = add_people(self.path, [(person.name, {}) for person in everybody])
        self.entries = key.entries
        scrubber = Scrubber(self.entries)
        hidden = [
            replace(one, name=entry.pseudonym, slug=entry.pseudonym.replace(" ", "_"), problem=scrubber.scrub(one.problem), notes=())
            for one, entry in zip(everybody, owned)
        ]  # fmt: skip
        people, missing = (tuple(sorted(some, key=lambda one: one.name)) for some in (hidden[: len(graded.people)], hidden[len(graded.people) :]))
        return replace(graded, people=people, missing=missing)

    def show_class(self, graded: GradedClass) -> GradedClass:
        """The class with its names, for the tables of learning platforms."""
        people, missing = ([replace(one, name=self._name(one.name)) for one in some] for some in (graded.people, graded.missing))
        return replace(graded, people=tuple(people), missing=tuple(missing))

    def _name(self, pseudonym: str) -> str:
        entry = self.entry(pseudonym)
        return entry.name if entry else pseudonym

    def show_ids(self, graded: GradedClass) -> dict[str, dict[str, str]]:
        """The ids of each person of an anonymous class, by file name."""
        return {one.slug: entry.ids for one in graded.people if (entry := self.entry(one.name))}


def _identity(person: RosterPerson) -> Identity:
    return person.name, {field: getattr(person, field) for field in IDS}


def _hide_roster(roster: Roster, owned: Sequence[KeyEntry]) -> Roster:
    """The roster in the order of the pseudonyms: its own order would say who is who. A small section or the name of a group would, too."""
    sections = Counter(person.section for person in roster.people)
    groups: dict[str, str] = {}  # members stay together, under another name
    for person, entry in sorted(zip(roster.people, owned, strict=True), key=lambda pair: pair[1].pseudonym):
        groups.setdefault(fold(person.group), f"group of {entry.pseudonym}" if person.group else "")
    hidden = [
        RosterPerson(entry.pseudonym, section=person.section if sections[person.section] >= LARGE_SECTION else "", group=groups[fold(person.group)])
        for person, entry in zip(roster.people, owned, strict=True)
    ]  # fmt: skip
    return Roster(tuple(sorted(hidden, key=lambda person: person.name)))


def add_people(path: Path, identities: Sequence[Identity]) -> tuple[Pseudonyms, list[KeyEntry]]:
    """The pseudonyms, and the entry of each of these people; the key gets those who are new."""
    with lock_key(path):
        entries = read_key(path) if path.is_file() else []
        before = list(entries)
        owned = _assign(entries, [(to_cell(name), {field: to_cell(value) for field, value in ids.items() if value}) for name, ids in identities])
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
        take(number, (place for place, entry in enumerate(entries) if entry.shares_an_id(ids) and not entry.contradicts(ids)), only_one=True)
    for number, (name, ids) in enumerate(identities):
        if number not in owned:
            take(number, (place for place, entry in enumerate(entries) if entry.name == name and not entry.contradicts(ids)), only_one=False)
    taken = {entry.pseudonym for entry in entries}
    known = {text for name, ids in identities for text in (name, *ids.values())}
    for number, (name, ids) in enumerate(identities):
        if number not in owned:
            entries.append(KeyEntry(_new_pseudonym(taken, known), name))
            owned[number] = len(entries) - 1
        place = owned[number]
        entries[place] = entries[place].add_ids({field: value for field, value in ids.items() if not _has(entries, place, field, value)})
    return [owned[number] for number in range(len(identities))]


def _has(entries: Sequence[KeyEntry], place: int, field: str, value: str) -> bool:
    """Whether the entry of another person has this id."""
    return any(entry.ids.get(field) == value for other, entry in enumerate(entries) if other != place)


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
    """The submissions, the rules and the notes with pseudonyms. The key at `path` gets everybody who is new, also people without a submission."""
    people = [_identity(person) for person in roster.people]
    in_roster = {person.name: number for number, person in enumerate(roster.people)}
    places = []
    for submission in submissions:
        number = in_roster.pop(submission.name, None)
        if number is None or any(people[number][1].get(field) not in ("", value) for field, value in submission.ids.items()):
            number = None
            people.append((submission.name, submission.ids))
        else:
            people[number] = (submission.name, {**people[number][1], **submission.ids})
        places.append(len(people) - 1 if number is None else number)
    named = {name for name, _ in people}
    people += [(name, {}) for name in rules.extensions if name not in named]
    pseudonyms, owned = add_people(path, people)
    scrubber = Scrubber(pseudonyms.entries)
    hidden = [_hide_submission(submission, owned[place], scrubber) for submission, place in zip(submissions, places)]
    submitted = {one.name for one in hidden}
    extensions = {entry.pseudonym: rules.extensions[name] for (name, _), entry in zip(people, owned) if name in rules.extensions}
    pseudonym_of = {name: entry.pseudonym for (name, _), entry in zip(people, owned, strict=True)}
    renamed = [note.rename(lambda name: pseudonym_of.get(name) or scrubber.scrub(name)) if isinstance(note, NameNote) else note for note in notes]
    said = [scrubber.scrub(str(note)) for note in renamed]
    if absent := sorted(set(extensions) - submitted):
        said.append(f"[extensions]: no submission is from {', '.join(absent)}; {path.name} has the names that your rules use")
    kept = {name: until for name, until in extensions.items() if name in submitted}
    find_missing = _hide_roster(roster, owned[: len(roster.people)]).find_missing
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
        versions=tuple(replace(one, file=scrubber.scrub(one.file, entry), notes=scrub(one.notes)) for one in submission.versions),
    )
