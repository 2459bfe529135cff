"""Finds out who of the roster handed in which submission, and gives a group's submission to each of its members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from grader.classroom.intake.submissions import Submission, add_slugs
from grader.classroom.sanitize import shorten
from grader.classroom.term.roster import Roster, RosterPerson

SHOWN = 10  # names in a note
PLATFORM_IDS = ("canvas_id", "moodle_id")


def name_by_roster(submissions: Sequence[Submission], roster: Roster, groups: bool) -> tuple[list[Submission], list[str]]:
    """The submissions under the names of the roster, and sentences for the instructor.

    A submission of a person who is not in the roster keeps its name. With `groups`, a member without an own submission gets that of the group.
    """
    if not roster.people:
        return list(submissions), []
    notes: list[str] = []
    found = [(submission, find_owner(submission, roster)) for submission in submissions]
    owners = Counter(person for _, person in found if person)
    named, strangers = [], []
    for submission, person in found:
        members = roster.group(submission.name) if groups and person is None else ()
        if person and owners[person] == 1:
            named.append(replace(submission, name=person.name))
        elif members:
            named += [replace(submission, name=member.name, ids={}) for member in members if not owners[member]]
        else:
            named.append(submission)
            if person:
                notes.append(f"{shorten(submission.name)} is one of several submissions of {shorten(person.name)}; keep one of them")
            else:
                strangers.append(submission.name)
    if groups:
        more, said = _share_in_groups(named, roster)
        named, notes = named + more, notes + said
    if strangers:
        notes.append(f"not in the roster: {_list(strangers)}")
    have = {submission.name for submission in named} | {person.name for person in owners}
    missing = [person.name for person in roster.people if person.name not in have]
    if missing:
        notes.append(f"no submission from {len(missing)} of the {len(roster.people)} people in the roster: {_list(missing)}")
    return add_slugs(named), notes


def find_owner(submission: Submission, roster: Roster) -> RosterPerson | None:
    """The person with the ids of this submission; else the only one with its name, unless that person has another id."""
    by_id = {person for field, value in submission.ids.items() for person in roster.people if getattr(person, field) == value}
    if by_id:
        return by_id.pop() if len(by_id) == 1 else None
    person = roster.find(submission.name)
    if person and any(getattr(person, field) not in ("", submission.ids.get(field, "")) for field in PLATFORM_IDS if field in submission.ids):
        return None
    return person


def _share_in_groups(named: Sequence[Submission], roster: Roster) -> tuple[list[Submission], list[str]]:
    """The submissions of members who have none: the newest of their group."""
    by_name = {submission.name: submission for submission in named}
    more, notes = [], []
    for group in dict.fromkeys(person.group for person in roster.people if person.group):
        members = roster.group(group)
        own = [by_name[member.name] for member in members if member.name in by_name]
        rest = [member for member in members if member.name not in by_name]
        if not own or not rest:
            continue
        best = max(own, key=lambda one: (not one.problem, one.submitted or datetime.min.replace(tzinfo=UTC)))
        if len({one.digest for one in own}) > 1:
            names = _list([one.name for one in own])
            notes.append(f"group {shorten(group)} has different submissions, from {names}; its other members get the newest, of {shorten(best.name)}")
        more += [replace(best, name=member.name, ids={}) for member in rest]
    return more, notes


def _list(names: Sequence[str]) -> str:
    shown = [shorten(name) for name in names[:SHOWN]]
    return ", ".join(shown if len(names) <= SHOWN else [*shown, f"and {len(names) - SHOWN} more"])
