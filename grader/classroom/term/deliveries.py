"""Reads the deliveries that one gradebook contains: first one folder of submissions, later others, for example of late work.

Of a person who is in several deliveries, the newer submission counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from grader.classroom.intake.mapped_files import describe_maps
from grader.classroom.intake.options import NEWEST, ReadOptions, parse_options
from grader.classroom.intake.reader import read_in_subprocess
from grader.classroom.intake.submissions import Submission
from grader.classroom.sanitize import shorten
from grader.classroom.term.matching import find_owner
from grader.classroom.term.name_notes import NameNote, Note
from grader.classroom.term.roster import Roster


@dataclass(frozen=True)
class Wanted:
    """What is graded; empty for everything."""

    modules: frozenset[str] = frozenset()  # the chapters
    assignment: str = ""


@dataclass(frozen=True)
class Delivery:
    """Submissions, and how they are read."""

    submissions: Path
    maps: tuple[str, ...] = ()  # "homework3.py=ch03"
    copies: str = NEWEST
    trust_file_dates: bool = False

    def reading(self, wanted: Wanted = Wanted()) -> ReadOptions:
        """How submissions are read. GradingProblem or UnknownName for an invalid option."""
        return parse_options(self.maps, self.copies, self.trust_file_dates, wanted.modules, wanted.assignment)


@dataclass(frozen=True)
class _Work:
    """What one person handed in with one delivery: usually one submission."""

    name: str  # as in the roster, if the person is in it
    place: str
    submissions: tuple[Submission, ...]

    @property
    def is_readable(self) -> bool:
        return any(not submission.problem for submission in self.submissions)

    @property
    def time(self) -> datetime | None:
        return max((submission.submitted for submission in self.submissions if submission.submitted), default=None)

    def is_equal(self, other: _Work) -> bool:
        return {one.digest for one in self.submissions} == {one.digest for one in other.submissions}

    def instead_of(self, other: _Work, why: str) -> _Work:
        note = f"there is another submission in {other.place}; the one in {self.place} counts, because {why}"
        return replace(self, submissions=tuple(replace(one, notes=(*one.notes, note)) for one in self.submissions))


def read_deliveries(deliveries: Sequence[Delivery], wanted: Wanted, roster: Roster, add_note: Callable[[Note], None]) -> list[Submission]:
    """The submissions of all deliveries, the first one first. GradingProblem if one of them cannot be read."""
    found: dict[object, _Work] = {}
    replaced: dict[str, None] = {}
    for number, delivery in enumerate(deliveries):
        for key, new in _read(delivery, wanted, number, roster, add_note).items():
            old = found.get(key)
            if old is None:
                found[key] = new
            elif not old.is_equal(new):
                found[key] = _choose(old, new)
                replaced[new.name] = None
    if replaced:
        add_note(NameNote("of several submissions one counts, and a note says which; this is so for ", tuple(replaced)))
    return [submission for work in found.values() for submission in work.submissions]


def _read(delivery: Delivery, wanted: Wanted, number: int, roster: Roster, add_note: Callable[[Note], None]) -> dict[object, _Work]:
    """The work of each person in one delivery, by what identifies the person."""
    found: dict[object, list[Submission]] = {}
    names: dict[object, str] = {}
    options = delivery.reading(wanted)
    submissions = list(read_in_subprocess(delivery.submissions, add_note, options=options))
    for sentence in describe_maps(options, submissions):
        add_note(sentence)
    for submission in submissions:
        owner = find_owner(submission, roster)
        group = f"{number} {submission.group}" if submission.group else ""  # another delivery may have a folder of the same name
        key = owner or (submission.name, *sorted(submission.ids.items()))
        names[key] = owner.name if owner else submission.name
        found.setdefault(key, []).append(replace(submission, group=group))
    place = shorten(delivery.submissions.resolve().name)
    return {key: _Work(names[key], place, tuple(submissions)) for key, submissions in found.items()}


def _choose(old: _Work, new: _Work) -> _Work:
    if old.is_readable != new.is_readable:
        better, other = (new, old) if new.is_readable else (old, new)
        return better.instead_of(other, "the other one cannot be graded")
    if old.time and new.time and old.time != new.time:
        newer, older = (new, old) if new.time > old.time else (old, new)
        return newer.instead_of(older, "it is newer")
    return new.instead_of(old, "it was added later")
