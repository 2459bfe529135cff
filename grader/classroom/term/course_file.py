"""Reads course.toml: the people, the assignments and the rules of a whole term.

    title = "Transformers, autumn 2026"
    roster = "roster.csv"     # or a list here: [{ name = "Alpha One", email = "alpha@example.edu" }]

    [late]                    # for every assignment; an assignment may have its own
    grace = "15m"
    per_day = 10

    [points]                  # where they differ from the course's
    softmax = 20

    [assignments.week3]
    title = "Attention"
    chapters = ["ch03"]       # or exercises = ["softmax", "causal_mask"], or both
    hidden = ["merge_heads"]  # exercises of it whose tests learners do not get
    weight = 20
    due = 2026-12-01T23:59:00+01:00
    groups = true             # one submission counts for everybody in its group of the roster

    [extensions.week3]
    "Alpha One" = 2026-12-03T23:59:00+01:00

    [[drops]]
    assignments = ["week1", "week2", "week3"]
    best = 2
"""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from grader.classroom.intake.problems import GradingProblem
from grader.classroom.judging.rules import Rules, parse_points
from grader.classroom.judging.toml_values import InvalidToml, parse_number, read_toml, show_value, suggest
from grader.classroom.sanitize import shorten
from grader.classroom.term.entries import Problems, check_keys, guard, read_names, read_table, read_text
from grader.classroom.term.late_rules import LATE_KEYS, CommonRules, read_late_values, read_rules
from grader.classroom.term.roster import FIELDS, NO_ROSTER, Roster
from grader.classroom.term.roster_table import parse_people, read_people
from grader.classroom.term.toml_lines import Path as KeyPath
from grader.course.syllabus import Exercise, Syllabus, UnknownName, load_syllabus

NAME = "course.toml"
GRADES = "grades"  # the folder next to course.toml that has a folder for each assignment
KEYS = ("title", "roster", "late", "points", "assignments", "extensions", "drops")
ASSIGNMENT_KEYS = ("title", "chapters", "exercises", "hidden", "weight", "due", "groups", *LATE_KEYS)


@dataclass(frozen=True)
class Assignment:
    name: str
    title: str
    exercises: tuple[Exercise, ...]  # in the course's order
    hidden: tuple[str, ...]
    weight: Decimal
    groups: bool
    rules: Rules


@dataclass(frozen=True)
class Drop:
    """Of these assignments, only the best ones count."""

    assignments: tuple[str, ...]
    best: int


@dataclass(frozen=True)
class Course:
    path: Path
    title: str
    roster: Roster
    assignments: tuple[Assignment, ...]
    drops: tuple[Drop, ...]
    is_anonymous: bool = False  # the roster and the rules have pseudonyms, in their order

    def assignment(self, name: str) -> Assignment:
        for one in self.assignments:
            if one.name == name:
                return one
        names = [one.name for one in self.assignments]
        raise GradingProblem(f"{self.path.name} has no assignment {shorten(name)}{suggest(name, names)}; its assignments are {', '.join(names)}")

    def hidden_in(self, assignment: Assignment) -> list[str]:
        """What a handout for this assignment hides: the hidden exercises of its chapters, of this assignment and of the others."""
        chapters = {exercise.chapter for exercise in assignment.exercises}
        names = {name for one in self.assignments for name in one.hidden}
        return [exercise.name for exercise in load_syllabus().exercises if exercise.name in names and exercise.chapter in chapters]

    def folder(self, name: str) -> Path:
        """The folder of an assignment's gradebook."""
        return self.path.parent / GRADES / name


def find_course(named: Path | None, way_out: str = "name one with --course FILE") -> Path:
    """The course file that was named, or the one in the current folder. `way_out` is how the command names one."""
    path = named or Path(NAME)
    if path.is_dir():
        path = path / NAME
    if not path.is_file():
        where = f"{path} does not exist" if named else f"there is no {NAME} in this folder"
        raise GradingProblem(f"{where}; {way_out}, or write one with `headway course init`")
    return path.resolve()


def read_course_file(path: Path) -> Course:
    """The course. GradingProblem, with the first thing that does not fit, if it cannot be used."""
    course, problems = check_course_file(path)
    if course is None:
        more = f" ({len(problems) - 1} more: `headway course check` lists them)" if len(problems) > 1 else ""
        raise GradingProblem(f"{problems[0]}{more}")
    return course


def check_course_file(path: Path) -> tuple[Course | None, list[str]]:
    """The course, or None and a sentence, with its line, for each thing that does not fit. GradingProblem if the file cannot be read."""
    try:
        data, text = read_toml(path, "a course")
    except InvalidToml as problem:
        return None, [str(problem)]
    problems = Problems(path.name, text)
    syllabus = load_syllabus()
    check_keys(data, KEYS, (), "", problems)
    misspelt = [table for key, table in data.items() if key not in KEYS]  # perhaps a table of assignments, which other tables then name rightly
    title = read_text(data, "title", (), problems)
    roster = _read_roster(data.get("roster"), path, problems)
    points = guard(problems, ("points",), lambda: parse_points(read_table(data, "points", problems), syllabus), {})
    late = read_table(data, "late", problems)
    check_keys(late, LATE_KEYS, ("late",), "[late] ", problems)
    late = read_late_values({key: value for key, value in late.items() if key in LATE_KEYS}, "[late]", ("late",), problems)
    extensions = read_table(data, "extensions", problems)
    entries = read_table(data, "assignments", problems)
    named = {*entries, *(name for table in misspelt if isinstance(table, dict) for name in table)}
    for name in extensions:
        if name not in named:
            problems.add(("extensions", name), f"[extensions.{shorten(name)}]: there is no assignment of this name{suggest(name, entries)}")
    if not entries and not misspelt:
        problems.add(("assignments",), 'there are no assignments; write a table [assignments.week1] with chapters = ["ch01"]')
    common = CommonRules(late, points, roster, not problems.has(("roster",)) and ("roster" in data or not misspelt))
    read = [_assignment(name, entry, common, extensions.get(name, {}), syllabus, problems) for name, entry in entries.items()]
    assignments = {one.name: one for one in read if one}
    drops = _read_drops(data.get("drops", []), assignments, named, problems)
    if assignments and not any(one.weight for one in assignments.values()) and not problems.has(("assignments",)):
        problems.add(("assignments",), "the weight of every assignment is 0, so there is no total; give one of them another weight")
    if problems.found:
        return None, problems.sentences()
    return Course(path, title, roster, tuple(assignments.values()), drops), []


def _assignment(name: str, entry: Any, common: CommonRules, extensions: Any, syllabus: Syllabus, problems: Problems) -> Assignment | None:
    where, path = f"[assignments.{shorten(name)}] ", ("assignments", name)
    if not isinstance(entry, dict):
        problems.add(path, f"{shorten(name)}: this must be a table; write [assignments.{shorten(name)}] and put its keys below")
        return None
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}", name):
        problems.add(path, f"{shorten(name)!r} is also the name of a folder: use only the letters a to z, digits, - and _")
    check_keys(entry, ASSIGNMENT_KEYS, path, where, problems)
    exercises = _exercises(entry, where, path, syllabus, problems)
    is_known = not problems.has(path)
    hidden = read_names(entry, "hidden", where, path, problems)
    for exercise in hidden:
        if is_known and exercise not in {one.name for one in exercises}:
            near = suggest(exercise, [one.name for one in exercises])
            problems.add((*path, "hidden"), f"{where}hidden: {shorten(exercise)!r} is not an exercise of this assignment{near}")
    weight = guard(problems, (*path, "weight"), lambda: parse_number(f"{where}weight", entry.get("weight", 1), "a weight", 1_000_000), Decimal(1))
    groups = entry.get("groups", False)
    if not isinstance(groups, bool):
        problems.add((*path, "groups"), f"{where}groups: {show_value(groups)} is not true or false")
    elif groups and not any(person.group for person in common.roster.people) and common.roster_is_known:
        unused = f"; these columns are not used: {', '.join(common.roster.unused)}" if common.roster.unused else ""
        problems.add((*path, "groups"), f"{where}groups: no person in the roster has a group; fill its column group, or leave this out{unused}")
    title = read_text(entry, "title", path, problems) or name
    rules = read_rules(name, entry, common, extensions, problems)
    if weight and exercises and not sum(map(rules.points_of, exercises)) and not problems.has(("points",)):
        problems.add(path, f"{where}its exercises are worth 0 points, so everybody would earn 0 %; give them points, or weight = 0")
    return Assignment(name, title, tuple(exercises), tuple(hidden), weight, groups is True, rules)


def _exercises(entry: dict, where: str, path: KeyPath, syllabus: Syllabus, problems: Problems) -> list[Exercise]:
    wanted: set[str] = set()
    for key in ("chapters", "exercises"):
        for name in read_names(entry, key, where, path, problems):
            try:
                found = syllabus.chapter(name).exercises if key == "chapters" else (syllabus.exercise(name),)
                wanted |= {exercise.name for exercise in found}
            except UnknownName as unknown:
                problems.add((*path, key), f"{where}{key}: {unknown}")
    if not wanted and not problems.has(path):
        given = next((key for key in ("exercises", "chapters") if key in entry), "")
        problems.add((*path, given) if given else path, f'{where}names no exercises; add chapters = ["ch03"] or exercises = ["softmax"]')
    return [exercise for exercise in syllabus.exercises if exercise.name in wanted]


def _read_roster(given: Any, path: Path, problems: Problems) -> Roster:
    if given is None:
        return NO_ROSTER
    try:
        if isinstance(given, str):
            return read_people(path.parent / given)
        if isinstance(given, list) and all(isinstance(entry, dict) for entry in given):
            for entry in given:
                check_keys(entry, FIELDS, ("roster",), "roster: ", problems)
            entries = [{key: value for key, value in entry.items() if key in FIELDS} for entry in given]
            if not all(isinstance(value, str) for entry in entries for value in entry.values()) or not all(entry.get("name") for entry in entries):
                raise GradingProblem('each person in the roster has a name, and all values are texts: { name = "Alpha One", number = "123" }')
            return parse_people(f"{path.name}, roster", entries)
        raise GradingProblem('roster: this is the name of a file, or a list of people like [{ name = "Alpha One" }]')
    except GradingProblem as problem:
        problems.add(("roster",), str(problem))
        return NO_ROSTER


def _read_drops(given: Any, assignments: dict[str, Assignment], named: Set[str], problems: Problems) -> tuple[Drop, ...]:
    if not isinstance(given, list) or not all(isinstance(entry, dict) for entry in given):
        problems.add(("drops",), "drops: write [[drops]], and below it assignments and best")
        return ()
    found: list[Drop] = []
    for number, entry in enumerate(given):
        path = ("drops", number)
        check_keys(entry, ("assignments", "best"), path, "[[drops]] ", problems)
        names, best = read_names(entry, "assignments", "[[drops]] ", path, problems), entry.get("best")
        for place, name in enumerate(names):
            if name not in named:
                problems.add((*path, "assignments"), f"[[drops]] assignments: there is no assignment {shorten(name)!r}{suggest(name, named)}")
            elif name in names[:place]:
                problems.add((*path, "assignments"), f"[[drops]] assignments: {name} is there twice; name it once")
            elif any(name in drop.assignments for drop in found):
                problems.add((*path, "assignments"), f"[[drops]] assignments: {name} is in two of these tables; name it in one")
        if best is None and problems.has(path):  # the key is misspelt
            continue
        if type(best) is not int or not 1 <= best <= len(names):
            problems.add((*path, "best"), f"[[drops]] best: {show_value(best)} is not a number from 1 to {len(names)}, the number of its assignments")
            continue
        weights = {assignments[name].weight for name in names if name in assignments}
        if len(weights) > 1 and not any(problems.has(("assignments", name)) for name in names):
            problems.add((*path, "assignments"), "[[drops]] assignments: their weights differ, so it is not clear which ones are the best; give them one weight")
        found.append(Drop(tuple(names), best))
    return tuple(found)
