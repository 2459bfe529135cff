"""Reads the deliveries that one gradebook contains, and finds out who of the roster handed in which submission.

The first delivery is a folder of submissions; later ones are, for example, of late work. Of a person who is in several
deliveries, the newer submission counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from grader.classroom.intake.clones import NO_DATES, CommitDates
from grader.classroom.intake.reader import read_in_subprocess
from grader.classroom.intake.submissions import ReadingCallback, Submission, add_slugs
from grader.classroom.sanitize import list_names, shorten
from grader.classroom.term.roster import Roster, RosterPerson, fold

PLATFORM_IDS = ("canvas_id", "moodle_id")
EARLIEST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class NameNote:
    """A sentence for the instructor that lists people, so that pseudonyms can be sorted before the list is cut off."""

    before: str
    names: tuple[str, ...]
    after: str = ""

    def __str__(self) -> str:
        return self.before + list_names(self.names) + self.after

    def rename(self, rename: Callable[[str], str]) -> NameNote:
        """The same sentence with other names, sorted: the order of the old ones would say who is who."""
        return replace(self, names=tuple(sorted(map(rename, self.names))))


Note = str | NameNote


def read_deliveries(
    folders: Sequence[Path], roster: Roster, add_note: Callable[[Note], None],
    report: ReadingCallback = lambda what: None, hides_names: bool = False, dates: CommitDates = NO_DATES,
    own_tests: bool = False,
) -> list[Submission]:  # fmt: skip
    """The submissions of all deliveries, the first one first. GradingProblem if one of them cannot be read.

    With `own_tests`, they are the learners' own tests, and not the chapters.

    With `hides_names`, no sentence shows the name of a file that somebody handed in.
    """
    found: dict[object, list[Submission]] = {}  # by what identifies the person
    chosen: dict[str, None] = {}
    for number, folder in enumerate(folders):
        submissions = read_in_subprocess(folder, add_note, report=report, hides_names=hides_names, dates=dates)
        submissions = [one.with_tests() for one in submissions] if own_tests else submissions
        submissions = without_common_start(submissions, roster, add_note)
        for key, new in _by_person(submissions, number, roster).items():
            old = found.setdefault(key, new)
            if {one.digest for one in old} != {one.digest for one in new}:
                work, why = _choose_work(old, new)
                note = f"there are submissions in several folders; this one counts, because {why}"
                found[key] = [replace(one, notes=(*one.notes, note)) for one in work]
                chosen[key.name if isinstance(key, RosterPerson) else new[0].name] = None
    if chosen:
        start = "of several submissions one counts, and a note says why; this is so for "
        add_note(NameNote(start, tuple(chosen)))
    return [submission for work in found.values() for submission in work]


def _by_person(submissions: Iterable[Submission], number: int, roster: Roster) -> dict[object, list[Submission]]:
    """The submissions of the delivery with this number, by what identifies their people."""
    found: dict[object, list[Submission]] = {}
    for submission in submissions:
        group = f"{number} {submission.group}" if submission.group else ""  # another delivery may have an equal folder
        key = find_owner(submission, roster) or (submission.name, *sorted(submission.ids.items()))
        found.setdefault(key, []).append(replace(submission, group=group))
    return found


def without_common_start(
    submissions: list[Submission], roster: Roster, add_note: Callable[[Note], None]
) -> list[Submission]:
    """The submissions, named by a login or group alone where names are ASSIGNMENT-LOGIN, as GitHub Classroom's are.

    A login may contain a hyphen, so one name alone may be unclear: the start is the one with which most names end with
    a login or group. Most names of a delivery must have it, so that Ada-Marie among others is not the login marie.
    """
    known = {fold(person.group.replace(" ", "-")): person.group for person in roster.people if person.group}
    known |= {fold(person.login): person.login for person in roster.people if person.login}
    unknown = {one.name for one in submissions if not (one.ids or roster.group(one.name) or find_owner(one, roster))}
    starts = Counter(start for name in unknown for start, end in _cuts(name) if end in known)
    (start, count), (_, second) = [*starts.most_common(2), ("", 0), ("", 0)][:2]
    ends = {one.name: end for one in submissions for before, end in _cuts(one.name) if before == start}
    if count == second or 2 * len(ends) <= len(submissions):
        return submissions
    new = {name: known[end] for name, end in ends.items() if name in unknown and end in known}
    add_note("the names begin alike, as GitHub Classroom's do, so their ends were compared with the roster's logins")
    return [replace(one, name=new.get(one.name, one.name)) for one in submissions]


def _cuts(name: str) -> list[tuple[str, str]]:
    """The parts before and after each hyphen, in small letters."""
    parts = fold(name).split("-")
    return [("-".join(parts[:place]), "-".join(parts[place:])) for place in range(1, len(parts))]


def _choose_work(old: list[Submission], new: list[Submission]) -> tuple[list[Submission], str]:
    """What counts of a person's work in two deliveries, and why."""
    old_is_readable, new_is_readable = (any(not one.problem for one in work) for work in (old, new))
    if old_is_readable != new_is_readable:
        return new if new_is_readable else old, "the other one cannot be graded"
    old_time, new_time = (max((one.submitted for one in work if one.submitted), default=None) for work in (old, new))
    if old_time and new_time and old_time != new_time:
        return new if new_time > old_time else old, "it is newer"
    return new, "it was added later"


def find_owner(submission: Submission, roster: Roster) -> RosterPerson | None:
    """The person with the ids of this submission; else the only one with its name, unless with another id."""
    ids = submission.ids
    by_id = {
        person
        for field, value in ids.items()
        for person in roster.people
        if value and fold(getattr(person, field)) == fold(value)
    }
    if by_id:
        return by_id.pop() if len(by_id) == 1 else None
    person = roster.find(submission.name)
    known = {field: fold(getattr(person, field)) for field in PLATFORM_IDS if field in ids} if person else {}
    return None if any(value not in ("", fold(ids[field])) for field, value in known.items()) else person


def name_by_roster(
    submissions: Sequence[Submission], roster: Roster, groups: bool
) -> tuple[list[Submission], list[Note]]:
    """The submissions under the names of the roster, and sentences for the instructor.

    A submission of a person who is not in the roster keeps its name. With `groups`, a member without an own submission
    gets that of the group.
    """
    if not roster.people:
        return list(submissions), []
    notes: list[Note] = []
    found = [(submission, find_owner(submission, roster)) for submission in submissions]
    owners = Counter(person for _, person in found if person)
    named: list[Submission] = []
    strangers: list[str] = []
    several: dict[RosterPerson, list[str]] = defaultdict(list)
    for submission, person in found:
        members = roster.group(submission.name) if groups and person is None else ()
        if person and owners[person] == 1:
            named.append(replace(submission, name=person.name))
        elif members:
            named += [replace(submission, name=member.name, ids={}) for member in members if not owners[member]]
        else:
            named.append(submission)
            (several[person] if person else strangers).append(submission.name)
    if groups:
        named += _share_in_groups(named, roster, notes)
    for names in several.values():
        notes.append(NameNote("several submissions of one person: ", tuple(names), "; keep one of them"))
    if strangers:
        notes.append(NameNote("not in the roster: ", tuple(strangers)))
    have = {submission.name for submission in named} | {person.name for person in owners}
    missing = tuple(person.name for person in roster.people if person.name not in have)
    if missing:
        many = f"{len(missing)} of the {len(roster.people)} people in the roster"
        notes.append(NameNote(f"no submission from {many}: ", missing))
    return add_slugs(named), notes


def _share_in_groups(named: Sequence[Submission], roster: Roster, notes: list[Note]) -> list[Submission]:
    """The submissions of members who have none: the newest of their group that can be graded."""
    by_name = {submission.name: submission for submission in named}
    more: list[Submission] = []
    for group in dict.fromkeys(person.group for person in roster.people if person.group):
        members = roster.group(group)
        own = [by_name[member.name] for member in members if member.name in by_name]
        rest = [member for member in members if member.name not in by_name]
        if own and rest:
            best = max(own, key=lambda one: (not one.problem, one.submitted or EARLIEST))  # of equal ones, the first
            if len({one.digest for one in own}) > 1:
                start = "different submissions in one group, from "
                end = "; its other members get the newest one that can be graded"
                notes.append(NameNote(start, tuple(one.name for one in own), end))
            note = f"this submission is from {shorten(best.name)}, of the same group"
            more += [replace(best, name=member.name, ids={}, notes=(*best.notes, note)) for member in rest]
    return more
