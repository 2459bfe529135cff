"""A course of a term: its people, and its assignments with their rules, as course.toml describes them:

title = "Transformers, autumn 2026"
roster = "roster.csv"

[late]                    # for every assignment; an assignment may have its own
grace = "15m"
per_day = 10

[points]                  # where they differ from the course's
softmax = 20

[assignments.week3]
title = "Attention"
chapters = ["ch03"]       # or exercises = ["softmax", "causal_mask"], or both
                          # or own_tests = ["softmax"] alone: the learners' own tests
hidden = ["merge_heads"]  # exercises of it whose tests learners do not get
weight = 20
due = 2026-12-01T23:59:00+01:00
groups = true             # one submission counts for everybody in its group of the roster

[extensions.week3]
"Alpha One" = 2026-12-03T23:59:00+01:00
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from grader.classroom.intake.submissions import GradingProblem
from grader.classroom.judging.marks import NOTHING, GradedClass, Person, round_to_cent
from grader.classroom.judging.rules import (
    Rules,
    parse_days,
    parse_number,
    parse_points,
    parse_span,
    parse_time_value,
    read_toml,
    show_value,
    suggest,
)
from grader.classroom.sanitize import shorten
from grader.classroom.term.roster import (
    FIELDS,
    NO_ROSTER,
    Roster,
    RosterPerson,
    describe_several,
    find_people,
    read_people,
    write_people,
)
from grader.course.syllabus import Exercise, UnknownName, load_syllabus
from grader.files import UserProblem, problem, write_whole
from grader.own_tests.versions import versions_of

GRADES = "grades"  # the folder next to course.toml that has a folder for each assignment


@dataclass(frozen=True)
class Assignment:
    name: str
    title: str
    exercises: tuple[Exercise, ...]  # in the course's order
    hidden: tuple[str, ...]
    weight: Decimal
    groups: bool
    rules: Rules

    @property
    def chapters(self) -> list[str]:
        """The chapters of its exercises."""
        return list(dict.fromkeys(exercise.chapter for exercise in self.exercises))


@dataclass(frozen=True)
class Course:
    path: Path
    title: str
    roster: Roster
    assignments: tuple[Assignment, ...]

    def assignment(self, name: str) -> Assignment:
        for one in self.assignments:
            if one.name == name:
                return one
        names = [one.name for one in self.assignments]
        where = f"{self.path.name} has no assignment {shorten(name)}{suggest(name, names)}"
        raise GradingProblem(f"{where}; its assignments are {', '.join(names)}")

    def with_rules(self, rules: Mapping[str, Rules]) -> Course:
        """The course with these rules, by assignment, instead of the file's."""
        new = (replace(one, rules=rules.get(one.name, one.rules)) for one in self.assignments)
        return replace(self, assignments=tuple(new))

    def hidden_in(self, assignment: Assignment) -> list[str]:
        """What a handout for this assignment hides: of its chapters, what any assignment hides."""
        names = {name for one in self.assignments for name in one.hidden}
        exercises = load_syllabus().exercises
        return [one.name for one in exercises if one.name in names and one.chapter in assignment.chapters]

    def folder(self, name: str) -> Path:
        """The folder of an assignment's gradebook."""
        return self.path.parent / GRADES / name


NAME, ROSTER_NAME = "course.toml", "roster.csv"
TEMPLATE = Path(__file__).with_name("course_template.txt")
Parser = Callable[[str, Any], Any]  # gets the key, for a message, and the value


def find_course(named: Path | None, way_out: str = "name one with --course FILE") -> Path:
    """The course file that was named, or the one in the current folder. `way_out` is how the command names one."""
    path = named or Path(NAME)
    path = path / NAME if path.is_dir() else path
    if not path.is_file():
        where = f"{path} does not exist" if named else f"there is no {NAME} in this folder"
        raise GradingProblem(f"{where}; {way_out}, or write one with `headway course init`")
    return path.resolve()


def write_course(folder: Path, title: str, export: Path | None) -> tuple[Path, Roster]:
    """Write a first course.toml with comments, and the roster from a learning platform's export, into `folder`.

    GradingProblem if one of the files exists.
    """
    roster = read_people(export) if export else NO_ROSTER
    path, people = folder / NAME, folder / ROSTER_NAME
    for file in (path, people):
        if file.exists() and not (file == people and export and export.resolve() == people.resolve()):
            raise GradingProblem(
                f"{file} exists already, and was not changed; edit it, or move it away and run the command again"
            )
    text = TEMPLATE.read_text(encoding="utf-8").format(
        title=json.dumps(title, ensure_ascii=False), roster=ROSTER_NAME, columns=", ".join(FIELDS)
    )
    try:
        if roster.people:
            write_whole(people, write_people(roster.people), private=True)
        text = text if roster.people else text.replace("\nroster =", "\n# roster =")
        write_whole(path, text, private=True)  # it will have people's extensions
    except OSError as error:
        raise GradingProblem(problem(error, f"write {NAME} in {folder}")) from error
    return path, roster


# ---- the values


def _kind(kind: type, what: str, key: str, value: Any) -> Any:
    """The value, if it is of this kind. GradingProblem if not."""
    if not isinstance(value, kind) or (isinstance(value, list) and not all(isinstance(one, str) for one in value)):
        raise GradingProblem(f"{key}: {show_value(value)} is not {what}")
    return value


_text = partial(_kind, str, "a text; put it in quotes")
_flag = partial(_kind, bool, "true or false")
_table = partial(_kind, dict, "a table; write its name in [ ] and put its keys below")
_names = partial(_kind, list, 'a list of names; write it like ["ch03"]')
_percent = partial(parse_number, what="a percentage", most=100)
_weight = partial(parse_number, what="a weight", most=1_000_000)


def _exercises(of_chapters: bool, key: str, value: Any) -> list[Exercise]:
    syllabus = load_syllabus()
    try:
        if of_chapters:
            return [exercise for name in _names(key, value) for exercise in syllabus.chapter(name).exercises]
        return [syllabus.exercise(name) for name in _names(key, value)]
    except UnknownName as unknown:
        raise GradingProblem(f"{key}: {unknown}") from None


def find_testable(names: Sequence[str]) -> list[Exercise]:
    """The exercises of these names, in the course's order. UnknownName, or UserProblem if one has no known mistakes."""
    found = {load_syllabus().exercise(name) for name in names}
    for exercise in found:
        versions_of(exercise)
    return [exercise for exercise in load_syllabus().exercises if exercise in found]


def _testable(key: str, value: Any) -> list[Exercise]:
    names = _names(key, value)
    try:
        return find_testable(names)
    except (UnknownName, UserProblem) as problem:
        raise GradingProblem(f"{key}: {problem}") from None


COURSE_KEYS: dict[str, Parser] = {
    "title": _text, "roster": _text, "late": _table, "points": _table, "assignments": _table, "extensions": _table,
}  # fmt: skip
LATE_KEYS: dict[str, Parser] = {"grace": parse_span, "per_day": _percent, "most": _percent, "last": parse_days}
ASSIGNMENT_KEYS: dict[str, Parser] = {
    "title": _text, "chapters": partial(_exercises, True), "exercises": partial(_exercises, False),
    "own_tests": _testable, "hidden": _names,
    "weight": _weight, "groups": _flag, "due": parse_time_value, **LATE_KEYS,
}  # fmt: skip


def _parse(table: dict, parsers: Mapping[str, Parser], where: str = "") -> dict[str, Any]:
    """The values of this table. GradingProblem for an unknown key or a wrong value."""
    for key in table:
        if key not in parsers:
            more = suggest(key, parsers, alike=0.6) or f"; the keys are {', '.join(parsers)}"
            raise GradingProblem(f"{where}{shorten(key)}: this key is unknown{more}")
    return {key: parsers[key](f"{where}{key}", value) for key, value in table.items()}


# ---- the course


def read_course_file(path: Path) -> Course:
    """The course. GradingProblem, with the first thing that does not fit, if it cannot be used."""
    data = read_toml(path)
    try:
        return _read(path, data)
    except GradingProblem as misfit:
        raise GradingProblem(f"{path.name}: {misfit}") from None


def _read(path: Path, data: dict) -> Course:
    course = _parse(data, COURSE_KEYS)
    roster = read_people(path.parent / course["roster"]) if "roster" in course else NO_ROSTER
    points = parse_points(course.get("points", {}), load_syllabus())
    late = _parse(course.get("late", {}), LATE_KEYS, "[late] ")
    entries = course.get("assignments", {})
    assignments = {name: _read_assignment(name, entry, roster, points, late) for name, entry in entries.items()}
    if not assignments:
        raise GradingProblem('there are no assignments; write [assignments.week1] with chapters = ["ch01"]')
    if not any(one.weight for one in assignments.values()):
        zero = "the weight of every assignment is 0, so there is no total"
        raise GradingProblem(f"{zero}; give one of them another weight")
    for name, entry in course.get("extensions", {}).items():
        _read_extensions(name, entry, roster, assignments)
    return Course(path, course.get("title", ""), roster, tuple(assignments.values()))


def _read_assignment(name: str, entry: Any, roster: Roster, points: dict, late: dict) -> Assignment:
    where = f"[assignments.{shorten(name)}] "
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}", name):
        folder = f"{where}this is also the name of a folder"
        raise GradingProblem(f"{folder}: use only the letters a to z, digits, - and _")
    own = _parse(_table(where.strip(), entry), ASSIGNMENT_KEYS, where)
    keys = ("chapters", "exercises", "own_tests")
    if own.get("own_tests") and (others := [key for key in ("chapters", "exercises", "hidden") if own.get(key)]):
        advice = "make two assignments"
        raise GradingProblem(f"{where}own_tests does not go with {' and '.join(others)}; {advice}")
    wanted = {exercise.name for key in keys for exercise in own.get(key, ())}
    exercises = tuple(exercise for exercise in load_syllabus().exercises if exercise.name in wanted)
    if not exercises:
        raise GradingProblem(f'{where}names no exercises; add chapters = ["ch03"] or exercises = ["softmax"]')
    for one in own.get("hidden", ()):
        if one not in wanted:
            near = suggest(one, wanted)
            raise GradingProblem(f"{where}hidden: {shorten(one)!r} is not an exercise of this assignment{near}")
    if own.get("groups") and not any(person.group for person in roster.people):
        no_group = f"{where}groups: no person in the roster has a group"
        raise GradingProblem(f"{no_group}; fill its column group, or leave this out")
    times = late | {key: value for key, value in own.items() if key in LATE_KEYS or key == "due"}
    tests = bool(own.get("own_tests"))
    rules = Rules(points, find_missing=roster.find_missing, own_tests=tests, **times)
    weight = own.get("weight", Decimal(1))
    if weight and not sum(map(rules.points_of, exercises)):
        nothing = f"{where}its exercises are worth 0 points, so everybody would earn 0 %"
        raise GradingProblem(f"{nothing}; give them points, or weight = 0")
    hidden, groups = tuple(own.get("hidden", ())), own.get("groups", False)
    return Assignment(name, own.get("title") or name, exercises, hidden, weight, groups, rules)


def _read_extensions(name: str, entry: Any, roster: Roster, assignments: Mapping[str, Assignment]) -> None:
    """Add the new due date of each person to the rules. A person may be named in any way, but only once."""
    where = f"[extensions.{shorten(name)}]"
    if name not in assignments:
        raise GradingProblem(f"{where}: there is no assignment of this name{suggest(name, assignments)}")
    rules = assignments[name].rules
    for who, until in _table(where, entry).items():
        place = f"{where} {shorten(who)!r}"
        when = parse_time_value(place, until)
        if rules.due is None:
            raise GradingProblem(f"{place}: [assignments.{shorten(name)}] has no due date to extend; add due")
        if when < rules.due:
            raise GradingProblem(f"{place}: {when.isoformat(' ', 'minutes')} is before the general due date")
        owner = _find_name(who, roster, place)
        if owner in rules.extensions:
            raise GradingProblem(f"{place}: {shorten(owner)} has another extension there; keep one of the two lines")
        rules.extensions[owner] = when


def _find_name(who: str, roster: Roster, place: str) -> str:
    """The name in the roster of the person whom this text means. GradingProblem if it is not clear."""
    if not roster.people:
        return who
    if person := roster.find(who):
        return person.name
    known = roster.named_people
    found = find_people(who, known)
    if len(found) == 1:
        return found[0].name
    if found:
        raise GradingProblem(f"{place}: {describe_several(who, found)}")
    if roster.group(who):
        raise GradingProblem(f"{place}: this is a group; an extension is for a person, so write a line for each member")
    near = suggest(who, [person.name for person in known])
    raise GradingProblem(f"{place}: the roster has no person of this name, e-mail, login or number{near}")


# ---- the marks of a term: for each person the assignments, and the total in percent, exact and rounded once


@dataclass(frozen=True)
class AssignmentMark:
    """One person's mark in one assignment. `person` is None if nothing was submitted."""

    points: Decimal
    person: Person | None = None

    @property
    def earned(self) -> Decimal:
        return self.person.total.earned if self.person else NOTHING

    @property
    def is_waiting(self) -> bool:
        """Whether the run that grades it is not finished: then it does not count yet."""
        return self.person is not None and self.person.waiting

    @property
    def share(self) -> Fraction:
        return Fraction(self.earned) / Fraction(self.points) if self.points else Fraction(0)

    @property
    def remark(self) -> str:
        """Why the points are as they are; "" if there is nothing to say."""
        return self.person.remark if self.person else "missing"


@dataclass(frozen=True)
class PersonMarks:
    who: RosterPerson
    marks: dict[str, AssignmentMark] = field(default_factory=dict)  # by assignment, the graded ones
    percent: Decimal | None = None  # None if no assignment with a weight is graded

    @property
    def missing(self) -> list[str]:
        return [name for name, mark in self.marks.items() if mark.person is None]


@dataclass(frozen=True)
class TermMarks:
    classes: dict[str, GradedClass]  # of the graded assignments, in the order of the course
    people: tuple[PersonMarks, ...]  # the roster's, then those who are not in it
    notes: tuple[str, ...] = ()


def compute_term_marks(course: Course, classes: Mapping[str, GradedClass], notes: Sequence[str] = ()) -> TermMarks:
    """The marks so far. Assignments, and submissions, that are not graded yet do not count.

    An assignment that a person did not hand in counts as 0 points.
    """
    graded = {one.name: classes[one.name] for one in course.assignments if one.name in classes}
    notes = list(notes)
    found: dict[str, dict[str, Person]] = {person.name: {} for person in course.roster.people}
    for name, one_class in graded.items():
        handed_in = [person for person in one_class.people if not person.missing or person.given]
        for person in sorted(handed_in, key=lambda one: one.name not in found):  # exact names first
            known = course.roster.find(person.name)
            own = found.setdefault(known.name if known else person.name, {})
            if name in own:
                both = f"{own[name].name} and {person.name} are one person in the roster"
                notes.append(f"{name}: {both}; only the first one counts")
            else:
                own[name] = person
        asked = {exercise.name for exercise in course.assignment(name).exercises}
        if asked != {exercise.name for exercise in one_class.exercises}:
            notes.append(f"{name} was graded with other exercises than course.toml has now; grade it again")
    roster = {person.name: person for person in course.roster.people}
    strangers = sorted(found.keys() - roster.keys(), key=str.casefold)
    people = [
        _person(course, roster.get(name) or RosterPerson(name), found[name], graded) for name in [*roster, *strangers]
    ]
    return TermMarks(graded, tuple(people), tuple(notes))


def _person(course: Course, who: RosterPerson, found: dict[str, Person], graded: dict[str, GradedClass]) -> PersonMarks:
    marks = {}
    for assignment, one_class in graded.items():
        person = found.get(assignment)
        marks[assignment] = AssignmentMark(person.total.points if person else one_class.points, person)
    counted = [one for one in course.assignments if one.name in marks and not marks[one.name].is_waiting]
    weights = {one.name: Fraction(one.weight) for one in counted}
    whole = sum(weights.values())
    total = sum((weights[name] * marks[name].share for name in weights), Fraction(0))
    percent = round_to_cent(100 * total / whole) if whole else None
    return PersonMarks(who, marks, percent)
