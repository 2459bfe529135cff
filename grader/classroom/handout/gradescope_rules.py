"""The rules for one submission on Gradescope: the instructor's, with the dates in Gradescope's submission_metadata.json.

The file is described in https://gradescope-autograders.readthedocs.io/en/latest/submission_metadata/. `assignment.due_date` is the general due date.
`users[].assignment.due_date` is that of one person, and is later if the person has an extension. There may be none of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

from grader.classroom.intake.roster import parse_time
from grader.classroom.judging.rules import Rules
from grader.classroom.term.course_file import Assignment, Course


def rules_of_assignment(course: Course, assignment: Assignment) -> Rules:
    """The rules, with extensions under the name and under the e-mail address: Gradescope may have another name for a person."""
    extensions = dict(assignment.rules.extensions)
    for name, until in assignment.rules.extensions.items():
        person = course.roster.find(name)
        if person and person.email:
            extensions[person.email] = until
    return replace(assignment.rules, extensions=extensions)


def add_gradescope_dates(rules: Rules, facts: Any) -> Rules:
    """The rules for the people of this submission.

    The due date of the rules counts; without one, that of Gradescope counts. A person's extension is the latest of the rules' and Gradescope's.
    Rules without deductions stay as they are.
    """
    if not rules.has_deductions and rules.due is None:
        return rules
    general = _due_date(facts)
    due = rules.due or general
    extensions = {}
    for user in _users(facts):
        name, email, own = _text(user, "name"), _text(user, "email").casefold(), _due_date(user)
        dates = [until for who, until in rules.extensions.items() if who == name or (email and who.casefold() == email)]
        if own and general and own > general:
            dates.append(own)
        if due and name and (later := [until for until in dates if until > due]):
            extensions[name] = max(later)
    return replace(rules, due=due, extensions=extensions)


def _users(facts: Any) -> Iterator[dict]:
    users = facts.get("users") if isinstance(facts, dict) else None
    yield from (user for user in users if isinstance(user, dict)) if isinstance(users, list) else ()


def _due_date(entry: Any) -> datetime | None:
    """The due date in the assignment of the submission or of a user; None if there is none, or it is not a time."""
    assignment = entry.get("assignment") if isinstance(entry, dict) else None
    text = assignment.get("due_date") if isinstance(assignment, dict) else None
    try:
        return parse_time(text) if isinstance(text, str) else None
    except ValueError:
        return None


def _text(entry: dict, key: str) -> str:
    value = entry.get(key)
    return value.strip() if isinstance(value, str) else ""
