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

import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

from grader.classroom.intake.problems import GradingProblem
from grader.classroom.judging import toml_values
from grader.classroom.judging.rules import Rules, parse_points
from grader.classroom.judging.toml_values import parse_time_value, suggest
from grader.classroom.sanitize import shorten
from grader.classroom.term import course_values, roster_table
from grader.classroom.term.course import Assignment, Course, Drop
from grader.classroom.term.roster import FIELDS, NO_ROSTER, Roster, describe_several, find_people, suggest_person
from grader.course.syllabus import load_syllabus
from grader.files import problem, write_whole

NAME, ROSTER_NAME = "course.toml", "roster.csv"
TEMPLATE = Path(__file__).with_name("course_template.txt")


def find_course(named: Path | None, way_out: str = "name one with --course FILE") -> Path:
    """The course file that was named, or the one in the current folder. `way_out` is how the command names one."""
    path = named or Path(NAME)
    path = path / NAME if path.is_dir() else path
    if not path.is_file():
        where = f"{path} does not exist" if named else f"there is no {NAME} in this folder"
        raise GradingProblem(f"{where}; {way_out}, or write one with `headway course init`")
    return path.resolve()


def write_course(folder: Path, title: str, export: Path | None, columns: Mapping[str, str]) -> tuple[Path, Roster]:
    """Write a first course.toml with comments, and the roster from a learning platform's export, into `folder`.

    GradingProblem if one of the files exists.
    """
    roster = roster_table.read_people(export, columns) if export else NO_ROSTER
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
            write_whole(people, roster_table.write_people(roster.people))
        write_whole(path, text if roster.people else text.replace("\nroster =", "\n# roster ="))
    except OSError as error:
        raise GradingProblem(problem(error, f"write {NAME} in {folder}")) from error
    return path, roster


def read_course_file(path: Path) -> Course:
    """The course. GradingProblem, with the first thing that does not fit, if it cannot be used."""
    course, problems = check_course_file(path)
    if course is None:
        more = f" ({len(problems) - 1} more: `headway course check` lists them)" if len(problems) > 1 else ""
        raise GradingProblem(f"{problems[0]}{more}")
    return course


def check_course_file(path: Path) -> tuple[Course | None, list[str]]:
    """The course, or None and a sentence, with its line, for each part that does not fit.

    GradingProblem if the file cannot be read.
    """
    try:
        data, text = toml_values.read_toml(path, "a course")
    except toml_values.InvalidToml as invalid:
        return None, [str(invalid)]
    reader = _CourseReader(path, text)
    title, drops = reader.read(data)
    if reader.problems:
        return None, [f"{path.name}, line {line}: {sentence}" for line, sentence in sorted(reader.problems)]
    return Course(path, title, reader.roster, tuple(reader.assignments.values()), tuple(drops)), []


class _CourseReader:
    """Reads the parts of the file, and collects the first problem of each: others in one part may follow from it."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.text = path, text
        self.problems: list[tuple[int, str]] = []
        self.here: course_values.KeyPath = ()  # what is being read
        self.roster = NO_ROSTER
        self.assignments: dict[str, Assignment] = {}

    @contextmanager
    def _part(self, *keys: str | int) -> Iterator[None]:
        self.here = keys
        try:
            yield
        except GradingProblem as misfit:
            self.problems.append((course_values.find_line(self.text, self.here), str(misfit)))

    def _parse(self, table: dict, parsers: Mapping[str, course_values.Parser], where: str = "") -> dict[str, Any]:
        """The values of this table. GradingProblem for an unknown key or a wrong value."""
        keys, found = self.here, {}
        for key, value in table.items():
            self.here = (*keys, key)
            if key not in parsers:
                more = suggest(key, parsers) or f"; the keys are {', '.join(parsers)}"
                raise GradingProblem(f"{where}{shorten(key)}: this key is unknown{more}")
            found[key] = parsers[key](f"{where}{key}", value)
        self.here = keys
        return found

    def read(self, data: dict) -> tuple[str, list[Drop]]:
        """The title and the drops; the rest is in the attributes."""
        course: dict[str, Any] = {}
        for key, value in data.items():
            with self._part():
                course |= self._parse({key: value}, course_values.COURSE_KEYS)
        if self.problems:  # what the other parts say about this one would be wrong
            return "", []
        late, points, drops = dict[str, Any](), dict[str, Decimal](), list[Drop]()
        with self._part("roster"):
            self.roster = self._read_roster(course.get("roster", []))
        with self._part("points"):
            points = parse_points(course.get("points", {}), load_syllabus())
        with self._part("late"):
            late = self._parse(course.get("late", {}), course_values.LATE_KEYS, "[late] ")
        entries = course.get("assignments", {})
        for name, entry in entries.items():
            with self._part("assignments", name):
                self.assignments[name] = self._read_assignment(name, entry, points, late)
        for name, entry in course.get("extensions", {}).items():
            with self._part("extensions", name):
                self._read_extensions(name, entry, entries)
        for number, entry in enumerate(course.get("drops", [])):
            with self._part("drops", number):
                drops.append(self._read_drop(entry, entries, drops))
        with self._part("assignments"):
            if not entries:
                raise GradingProblem('there are no assignments; write [assignments.week1] with chapters = ["ch01"]')
            if not self.problems and not any(one.weight for one in self.assignments.values()):
                zero = "the weight of every assignment is 0, so there is no total"
                raise GradingProblem(f"{zero}; give one of them another weight")
        return course.get("title", ""), drops

    def _read_roster(self, entry: str | list[dict]) -> Roster:
        if isinstance(entry, str):
            return roster_table.read_people(self.path.parent / entry)
        people = [self._parse(one, course_values.PERSON_KEYS, "roster: ") for one in entry]
        if not all(one.get("name") for one in people):
            raise GradingProblem('each person in the roster has a name: { name = "Alpha One", number = "123" }')
        return roster_table.parse_people(f"{self.path.name}, roster", people)

    def _read_assignment(self, name: str, entry: Any, points: dict, late: dict) -> Assignment:
        where, keys = f"[assignments.{shorten(name)}] ", self.here
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}", name):
            folder = f"{shorten(name)!r} is also the name of a folder"
            raise GradingProblem(f"{folder}: use only the letters a to z, digits, - and _")
        own = self._parse(course_values.parse_table(where.strip(), entry), course_values.ASSIGNMENT_KEYS, where)
        wanted = {exercise.name for exercise in (*own.get("chapters", ()), *own.get("exercises", ()))}
        exercises = tuple(exercise for exercise in load_syllabus().exercises if exercise.name in wanted)
        self.here = (*keys, "chapters")
        if not exercises:
            raise GradingProblem(f'{where}names no exercises; add chapters = ["ch03"] or exercises = ["softmax"]')
        self.here = (*keys, "hidden")
        for one in own.get("hidden", ()):
            if one not in wanted:
                near = suggest(one, wanted)
                raise GradingProblem(f"{where}hidden: {shorten(one)!r} is not an exercise of this assignment{near}")
        self.here = (*keys, "groups")
        if own.get("groups") and not self.problems and not any(person.group for person in self.roster.people):
            unused = f"; these columns are not used: {', '.join(self.roster.unused)}" if self.roster.unused else ""
            problem = f"{where}groups: no person in the roster has a group"
            raise GradingProblem(f"{problem}; fill its column group, or leave this out{unused}")
        self.here = keys
        times = late | {key: value for key, value in own.items() if key in course_values.LATE_KEYS or key == "due"}
        rules = Rules(points, find_missing=self.roster.find_missing, **times)
        weight = own.get("weight", Decimal(1))
        if weight and not sum(map(rules.points_of, exercises)):
            nothing = f"{where}its exercises are worth 0 points, so everybody would earn 0 %"
            raise GradingProblem(f"{nothing}; give them points, or weight = 0")
        hidden, groups = tuple(own.get("hidden", ())), own.get("groups", False)
        return Assignment(name, own.get("title") or name, exercises, hidden, weight, groups, rules)

    def _read_extensions(self, name: str, entry: Any, assignments: Collection[str]) -> None:
        """Add the new due date of each person to the rules. A person may be named in any way, but only once."""
        where = f"[extensions.{shorten(name)}]"
        if name not in assignments:
            raise GradingProblem(f"{where}: there is no assignment of this name{suggest(name, assignments)}")
        if name not in self.assignments:
            return  # its own problem says more
        rules, written = self.assignments[name].rules, dict[str, str]()  # as the file names the people
        for who, until in course_values.parse_table(where, entry).items():
            with self._part("extensions", name, who):
                place = f"{where} {shorten(who)!r}"
                when = parse_time_value(place, until)
                if rules.due is None:
                    raise GradingProblem(f"{place}: [assignments.{shorten(name)}] has no due date to extend; add due")
                if when < rules.due:
                    raise GradingProblem(f"{place}: {when.isoformat(' ', 'minutes')} is before the general due date")
                owner = _find_name(who, self.roster, place)
                if owner in written:
                    line = course_values.find_line(self.text, ("extensions", name, written[owner]))
                    same = f"{place}: this is the same person as {shorten(written[owner])!r} in line {line}"
                    raise GradingProblem(f"{same}; keep one of the two lines")
                written[owner] = who
                rules.extensions[owner] = when

    def _read_drop(self, entry: dict, assignments: Collection[str], before: list[Drop]) -> Drop:
        keys, where = self.here, "[[drops]] assignments:"
        drop = self._parse(entry, course_values.DROP_KEYS, "[[drops]] ")
        names, best = drop.get("assignments", []), drop.get("best", 0)
        taken = [name for other in before for name in other.assignments]
        self.here = (*keys, "assignments")
        for name in names:
            if name not in assignments:
                raise GradingProblem(f"{where} there is no assignment {shorten(name)!r}{suggest(name, assignments)}")
            if [*names, *taken].count(name) > 1:
                raise GradingProblem(f"{where} {name} is there twice; name it once")
        read = [self.assignments[name].weight for name in names if name in self.assignments]
        if len(read) == len(names) and len(set(read)) > 1:
            unclear = "their weights differ, so it is not clear which ones are the best"
            raise GradingProblem(f"{where} {unclear}; give them one weight")
        self.here = (*keys, "best")
        if not 1 <= best <= len(names):
            which = f"is not a number from 1 to {len(names)}, the number of its assignments"
            raise GradingProblem(f"[[drops]] best: {best} {which}")
        return Drop(tuple(names), best)


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
    near = suggest_person(who, known)
    raise GradingProblem(f"{place}: the roster has no person of this name, e-mail, login or number{near}")
