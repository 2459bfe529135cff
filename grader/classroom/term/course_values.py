"""Parses the values in course.toml, and finds the lines of its keys, since Python's reader does not keep lines."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any

from grader.classroom.intake.problems import GradingProblem
from grader.classroom.judging import toml_values
from grader.classroom.judging.toml_values import parse_number, parse_time_value, show_value
from grader.classroom.term.roster import FIELDS
from grader.course.syllabus import Exercise, UnknownName, load_syllabus

Parser = Callable[[str, Any], Any]  # gets the key, for a message, and the value
KeyPath = tuple[str | int, ...]  # keys from the top; a number counts the tables of an array


def _kind(kind: type | tuple[type, ...], what: str, key: str, value: Any, entries: type = object) -> Any:
    """The value, if it is of this kind. GradingProblem if not."""
    if not isinstance(value, kind) or (isinstance(value, list) and not all(isinstance(one, entries) for one in value)):
        raise GradingProblem(f"{key}: {show_value(value)} is not {what}")
    return value


_text = partial(_kind, str, "a text; put it in quotes")
_flag = partial(_kind, bool, "true or false")
parse_table = partial(_kind, dict, "a table; write its name in [ ] and put its keys below")
_tables = partial(_kind, list, "a list of tables; write [[drops]], and below it assignments and best", entries=dict)
_names = partial(_kind, list, 'a list of names; write it like ["ch03"]', entries=str)
_PEOPLE = 'the name of a file, or a list of people like [{ name = "Alpha One" }]'
_people = partial(_kind, (str, list), _PEOPLE, entries=dict)


def _percent(key: str, value: Any) -> Decimal:
    return parse_number(key, value, "a percentage", 100)


def _weight(key: str, value: Any) -> Decimal:
    return parse_number(key, value, "a weight", 1_000_000)


def _count(key: str, value: Any) -> int:
    if type(value) is not int or value < 1:
        raise GradingProblem(f"{key}: {show_value(value)} is not a number from 1")
    return value


def _exercises(of_chapters: bool, key: str, value: Any) -> list[Exercise]:
    syllabus = load_syllabus()
    try:
        if of_chapters:
            return [exercise for name in _names(key, value) for exercise in syllabus.chapter(name).exercises]
        return [syllabus.exercise(name) for name in _names(key, value)]
    except UnknownName as unknown:
        raise GradingProblem(f"{key}: {unknown}") from None


COURSE_KEYS: dict[str, Parser] = {
    "title": _text, "roster": _people, "late": parse_table, "points": parse_table, "assignments": parse_table,
    "extensions": parse_table, "drops": _tables,
}  # fmt: skip
LATE_KEYS: dict[str, Parser] = {
    "grace": toml_values.parse_span, "per_day": _percent, "most": _percent, "last": toml_values.parse_days,
}  # fmt: skip
ASSIGNMENT_KEYS: dict[str, Parser] = {
    "title": _text, "chapters": partial(_exercises, True), "exercises": partial(_exercises, False), "hidden": _names,
    "weight": _weight, "groups": _flag, "due": parse_time_value, **LATE_KEYS,
}  # fmt: skip
DROP_KEYS: dict[str, Parser] = {"assignments": _names, "best": _count}
PERSON_KEYS: dict[str, Parser] = dict.fromkeys(FIELDS, _text)


def find_line(text: str, path: KeyPath) -> int:
    """The line on which this key begins; of the nearest table around it if there is no such key."""
    for depth in range(len(path), 0, -1):
        for line, data in _read_line_by_line(text):
            if _has(data, path[:depth]):
                return line
    return 1


@lru_cache(maxsize=1)
def _read_line_by_line(text: str) -> list[tuple[int, dict]]:
    """The data up to the end of each statement, with the line on which the statement begins."""
    lines, start = text.split("\n"), 1
    found = []
    for number in range(1, len(lines) + 1):
        try:
            found.append((start, tomllib.loads("\n".join(lines[:number]))))
            start = number + 1
        except tomllib.TOMLDecodeError:  # in the middle of a list or of a text
            continue
    return found


def _has(data: Any, path: KeyPath) -> bool:
    for key in path:
        try:
            data = data[key]
        except (LookupError, TypeError):
            return False
    return True
