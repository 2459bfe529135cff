"""Finds out who of the roster handed in which submission, and gives a group's submission to each of its members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from grader.classroom.intake.submissions import Submission, add_slugs
from grader.classroom.sanitize import shorten
from grader.classroom.term.name_notes import NameNote, Note
from grader.classroom.term.roster import Roster, RosterPerson

PLATFORM_IDS = ("canvas_id", "moodle_id")


def name_by_roster(submissions: Sequence[Submission], roster: Roster, groups: bool) -> tuple[list[Submission], list[Note]]:
    """The submissions under the names of the roster, and sentences for the instructor.

    A submission of a person who is not in the roster keeps its name. With `groups`, a member without an own submission gets that of the group.
    """
    if not roster.people:
        return list(submissions), []
    notes: list[Note] = []
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
        notes.append(NameNote("not in the roster: ", tuple(strangers)))
    have = {submission.name for submission in named} | {person.name for person in owners}
    missing = [person.name for person in roster.people if person.name not in have]
    if missing:
        notes.append(NameNote(f"no submission from {len(missing)} of the {len(roster.people)} people in the roster: ", tuple(missing)))
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


def _share_in_groups(named: Sequence[Submission], roster: Roster) -> tuple[list[Submission], list[Note]]:
    """The submissions of members who have none: the newest of their group."""
    by_name = {submission.name: submission for submission in named}
    more: list[Submission] = []
    notes: list[Note] = []
    for group in dict.fromkeys(person.group for person in roster.people if person.group):
        members = roster.group(group)
        own = [by_name[member.name] for member in members if member.name in by_name]
        rest = [member for member in members if member.name not in by_name]
        if not own or not rest:
            continue
        best, why = _choose(own)
        if why:
            names = tuple(one.name for one in own)
            notes.append(NameNote(f"group {shorten(group)} has different submissions, from ", names, f"; {why} {shorten(best.name)}"))
        note = f"this submission is from {shorten(best.name)}, of the same group"
        more += [replace(best, name=member.name, ids={}, notes=(*best.notes, note)) for member in rest]
    return more, notes


def _choose(own: Sequence[Submission]) -> tuple[Submission, str]:
    """The submission that the other members of a group get; and, if there are several, why, as the middle of a sentence."""
    readable = [one for one in own if not one.problem] or own
    if len({one.digest for one in own}) == 1:
        return readable[0], ""
    times = [one.submitted for one in readable]
    known = [time for time in times if time]
    newest = readable[times.index(max(known))] if known else readable[0]
    if len({one.digest for one in readable}) == 1:
        return newest, "its other members get the one that can be graded, of"
    if len(known) < len(times) or any(one.submitted == newest.submitted and one.digest != newest.digest for one in readable):
        return newest, "their times do not say which is the newest; its other members get the one of"
    return newest, "its other members get the newest, of"
