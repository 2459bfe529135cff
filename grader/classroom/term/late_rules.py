"""Reads the rules for late work in course.toml: those of all assignments, those of one, and its extensions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from grader.classroom.judging.rules import Rules
from grader.classroom.judging.toml_values import parse_days, parse_number, parse_span, parse_time_value
from grader.classroom.sanitize import shorten
from grader.classroom.term.entries import Problems, guard
from grader.classroom.term.person_finder import describe_several, find_people, from_roster, suggest_person
from grader.classroom.term.roster import Roster
from grader.classroom.term.toml_lines import Path as KeyPath

LATE_KEYS = ("grace", "per_day", "most", "last")
LATE_VALUES: dict[str, Callable[[str, object], Any]] = {
    "due": parse_time_value,
    "grace": parse_span,
    "per_day": lambda key, value: parse_number(key, value, "a percentage", 100),
    "most": lambda key, value: parse_number(key, value, "a percentage", 100),
    "last": parse_days,
}


@dataclass(frozen=True)
class CommonRules:
    """What all assignments of a course share."""

    late: dict[str, Any]
    points: dict[str, Decimal]
    roster: Roster
    roster_is_known: bool  # False if it cannot be read, or perhaps has a misspelt key


def read_late_values(entry: dict, where: str, path: KeyPath, problems: Problems) -> dict[str, Any]:
    """The valid ones of the values that are given here."""
    given = {key: parse for key, parse in LATE_VALUES.items() if key in entry}
    found = {key: guard(problems, (*path, key), lambda key=key, parse=parse: parse(f"{where} {key}", entry[key]), None) for key, parse in given.items()}
    return {key: value for key, value in found.items() if value is not None}


def read_rules(name: str, entry: dict, common: CommonRules, extensions: Any, problems: Problems) -> Rules:
    """The rules of an assignment: its own values, then the common ones."""
    own = read_late_values(entry, f"[assignments.{shorten(name)}]", ("assignments", name), problems)
    extended = _read_extensions(name, extensions, own.get("due"), "due" in entry, common.roster, problems)
    return Rules(points=common.points, extensions=extended, find_missing=common.roster.find_missing, **common.late | own)


def _read_extensions(name: str, extensions: Any, due: datetime | None, has_due: bool, roster: Roster, problems: Problems) -> dict[str, datetime]:
    """The new due date of each person. A person may be named in any way, but only once."""
    table = f"[extensions.{shorten(name)}]"
    if not isinstance(extensions, dict):
        problems.add(("extensions", name), f"{table}: this must be a table")
        return {}
    found: dict[str, datetime] = {}
    written: dict[str, str] = {}  # by the name of the person, how the line before names them
    for who, until in extensions.items():
        place, path = f"{table} {shorten(who)!r}", ("extensions", name, who)
        when = guard(problems, path, lambda until=until, place=place: parse_time_value(place, until), None)
        person = _find(who, roster)
        if person is None and roster.people:
            problems.add(path, f"{place}: {_explain(who, roster)}")
        if when and not has_due and not problems.has(("assignments", name)):
            problems.add(path, f"{place}: [assignments.{shorten(name)}] has no due date to extend; add due")
        elif when and due and when < due:
            problems.add(path, f"{place}: {when.isoformat(' ', 'minutes')} is before the general due date")
        owner = person or who
        if owner in written:
            line = problems.line(("extensions", name, written[owner]))
            problems.add(path, f"{place}: this is the same person as {shorten(written[owner])!r} in line {line}; keep one of the two lines")
        written[owner] = who
        if when:
            found[owner] = when
    return found


def _find(who: str, roster: Roster) -> str | None:
    """The name in the roster of the person whom this text means; None if it is not clear."""
    if person := roster.find(who):
        return person.name
    found = find_people(who, [from_roster(person) for person in roster.people])
    return found[0].name if len(found) == 1 else None


def _explain(who: str, roster: Roster) -> str:
    known = [from_roster(person) for person in roster.people]
    found = find_people(who, known)
    if found:
        return describe_several(who, found)
    if roster.group(who):
        return "this is a group; an extension is for a person, so write a line for each member"
    return f"the roster has no person of this name, e-mail, login or number{suggest_person(who, known)}"
