"""What an instructor asks `headway grade` to do; stored next to the gradebook, so that `headway regrade` can ask for the same."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from grader.classroom.anonymous import key_file
from grader.classroom.intake.options import NEWEST, ReadOptions, parse_options
from grader.classroom.intake.problems import GradingProblem
from grader.classroom.judging.rules import Rules, read_rules
from grader.classroom.sanitize import line
from grader.classroom.term.course_file import Assignment, Course, find_course, read_course_file
from grader.course.status import read_course
from grader.course.syllabus import Exercise
from grader.files import problem, write_whole

ASKED = "asked.json"  # next to the gradebook


@dataclass(frozen=True)
class Request:
    submissions: Path
    out: Path
    chapters: tuple[str, ...] = ()
    exercises: tuple[str, ...] = ()
    seed: int = 0
    points: Path | None = None
    require_isolation: bool = False
    course: Path | None = None
    assignment: str = ""  # of the course: it says which exercises, and the rules
    maps: tuple[str, ...] = ()  # "homework3.py=ch03"
    copies: str = NEWEST
    trust_file_dates: bool = False
    anonymous: bool = False
    key: Path | None = None  # of the pseudonyms; None for the usual place

    @property
    def key_path(self) -> Path:
        """The usual place is next to the course file, so that all assignments share it; else next to the folder of the grades, never in it."""
        return self.key or (self.course or self.out.resolve()).parent / key_file.NAME

    def reading(self, chosen: Iterable[Exercise]) -> ReadOptions:
        """How submissions are read to grade these exercises. GradingProblem or UnknownName for an invalid option."""
        return parse_options(self.maps, self.copies, self.trust_file_dates, {exercise.module for exercise in chosen}, self.assignment)

    def command(self) -> str:
        """The `headway grade` command that asks for this, for the instructor to copy."""
        options: list[tuple[str, object]] = [("--map", one) for one in self.maps]
        if self.course is None:
            options += [("--out", self.out), ("--chapters", ",".join(self.chapters)), ("--exercises", ",".join(self.exercises)), ("--points", self.points)]
        else:
            is_usual = self.out.resolve() == read_course_file(self.course).folder(self.assignment).resolve()
            options += [("--assignment", self.assignment), ("--course", self.course), ("--out", None if is_usual else self.out)]
        options += [("--seed", self.seed), ("--copies", "" if self.copies == NEWEST else self.copies), ("--key", self.key)]
        flags = [("--trust-file-dates", self.trust_file_dates), ("--anonymous", self.anonymous), ("--require-isolation", self.require_isolation)]
        words = ["headway", "grade", str(self.submissions), *(word for option, value in options if value for word in (option, str(value)))]
        return shlex.join([*words, *(flag for flag, is_set in flags if is_set)])

    def resolve(self) -> tuple[list[Exercise], Rules, Course | None]:
        """The exercises to grade in the course's order (all if none is named), the rules, and the course. GradingProblem or UnknownName if they do not fit."""
        if self.course is None:
            course = read_course()
            return course.chosen([*self.chapters, *self.exercises]), read_rules(self.points) if self.points else Rules(), None
        term = read_course_file(self.course)
        assignment = term.assignment(self.assignment)
        return list(assignment.exercises), assignment.rules, term

    def store(self) -> None:
        paths = {"submissions": str(self.submissions.resolve()), "points": _absolute(self.points), "course": _absolute(self.course)}
        hiding = {"anonymous": True, "key": _absolute(self.key)} if self.anonymous else {}
        asked = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in ("out", "anonymous", "key")} | paths | hiding
        try:
            write_whole(self.out / ASKED, json.dumps(asked, indent=1) + "\n")
        except OSError as trouble:
            raise GradingProblem(problem(trouble, f"write {ASKED} in {self.out}")) from trouble


def make_request(
    submissions: Path, out: Path | None, chapters: str, exercises: str, seed: int, points: Path | None, require_isolation: bool, course: Path | None, assignment: str
) -> Request:
    """The request that these options mean. GradingProblem if they contradict each other."""
    found = choose_assignment(course, assignment, {"--chapters": chapters, "--exercises": exercises, "--points": points})
    if found is None:
        return Request(submissions, out or Path("grades"), split_names(chapters), split_names(exercises), seed, points, require_isolation)
    term, name = found[0], found[1].name
    return Request(submissions, out or term.folder(name), seed=seed, require_isolation=require_isolation, course=term.path, assignment=name)


def choose_assignment(course: Path | None, assignment: str, others: Mapping[str, object]) -> tuple[Course, Assignment] | None:
    """The course and the assignment that these options name; None if they name none. GradingProblem if one of the other options, by name, is given too."""
    if course is None and not assignment:
        return None
    for option, value in others.items():
        if value:
            raise GradingProblem(f"{option} does not go with an assignment: course.toml says what is graded; leave out {option}, or --assignment and --course")
    path = find_course(course)
    term = read_course_file(path)
    names = [one.name for one in term.assignments]
    if not assignment and len(names) > 1:
        raise GradingProblem(f"{path.name} has several assignments; name one with --assignment: {', '.join(names)}")
    return term, term.assignment(assignment or names[0])


def folder_of(out: Path | None, course: Path | None, assignment: str) -> Path:
    """The folder of a gradebook, for a command that reads or changes one."""
    if course is None and not assignment:
        return out or Path("grades")
    return make_request(Path(), out, "", "", 0, None, False, course, assignment).out


def last_request(out: Path) -> Request:
    """The arguments of the last run into this folder. GradingProblem if there was none."""
    asked = read_request(out)
    if asked is None:
        raise GradingProblem(f"{line(str(out))} is not a folder that `headway grade` has written to; choose the right one with --out, or with --assignment")
    return asked


def read_request(out: Path) -> Request | None:
    """The arguments of the last run into this folder; None if they are missing or invalid."""
    paths = {"points": str | None, "course": str | None, "key": str | None}
    kinds = {"submissions": str, "chapters": list, "exercises": list, "seed": int, "require_isolation": bool, "assignment": str} | paths
    kinds |= {"maps": list, "copies": str, "trust_file_dates": bool, "anonymous": bool}
    defaults: dict[str, Any] = {"require_isolation": False, "course": None, "assignment": "", "maps": [], "copies": NEWEST, "trust_file_dates": False}
    defaults |= {"anonymous": False, "key": None}
    try:
        asked = defaults | json.loads((out / ASKED).read_text(encoding="utf-8"))
        texts = [asked["submissions"], *(asked[path] or "" for path in paths), asked["assignment"], *asked["chapters"], *asked["exercises"], *asked["maps"]]
        sound = all(isinstance(asked[name], kind) for name, kind in kinds.items()) and all(isinstance(text, str) and "\0" not in text for text in texts)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    if not sound:
        return None
    chapters, exercises = (split_names(",".join(asked[key])) for key in ("chapters", "exercises"))
    points, course, key = (Path(asked[path]) if asked[path] else None for path in paths)
    reading = (tuple(asked["maps"]), asked["copies"], asked["trust_file_dates"], asked["anonymous"], key)
    return Request(Path(asked["submissions"]), out, chapters, exercises, asked["seed"], points, asked["require_isolation"], course, asked["assignment"], *reading)


def split_names(words: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in words.split(",") if name.strip())


def _absolute(path: Path | None) -> str | None:
    return str(path.resolve()) if path else None
