"""What an instructor asks `headway grade` to do."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from grader.classroom.anonymous import key_file
from grader.classroom.intake.options import NEWEST
from grader.classroom.intake.problems import GradingProblem
from grader.classroom.judging.rules import Rules, read_rules
from grader.classroom.term.course_file import Assignment, Course, find_course, read_course_file
from grader.classroom.term.deliveries import Delivery
from grader.course.status import read_course
from grader.course.syllabus import Exercise


@dataclass(frozen=True)
class OwnReading:
    """How the submissions of some people are read, where `headway regrade` said so; what is empty stays as for the others."""

    names: tuple[str, ...]  # as in the gradebook
    maps: tuple[str, ...] = ()
    copies: str = ""
    trust_file_dates: bool = False

    def apply(self, delivery: Delivery) -> Delivery:
        own = {_mapped_file(one) for one in self.maps}
        maps = (*self.maps, *(one for one in delivery.maps if _mapped_file(one) not in own))
        return replace(delivery, maps=maps, copies=self.copies or delivery.copies, trust_file_dates=self.trust_file_dates or delivery.trust_file_dates)

    def __str__(self) -> str:
        words = [*(f"--map {one}" for one in self.maps), f"--copies {self.copies}" if self.copies else "", "--trust-file-dates" if self.trust_file_dates else ""]
        return " ".join(filter(None, words))


@dataclass(frozen=True)
class Request:
    submissions: Path  # the last delivery
    out: Path
    chapters: tuple[str, ...] = ()
    exercises: tuple[str, ...] = ()
    seed: int = 0
    points: Path | None = None
    require_isolation: bool = False
    course: Path | None = None
    assignment: str = ""  # of the course: it says which exercises, and the rules
    maps: tuple[str, ...] = ()
    copies: str = NEWEST
    trust_file_dates: bool = False
    anonymous: bool = False
    key: Path | None = None  # of the pseudonyms; None for the usual place
    earlier: tuple[Delivery, ...] = ()  # those that this run adds to
    own_reading: tuple[OwnReading, ...] = ()

    @property
    def key_path(self) -> Path:
        """The usual place is next to the course file, so that all assignments share it; else next to the folder of the grades, never in it."""
        return self.key or (self.course or self.out.resolve()).parent / key_file.NAME

    @property
    def deliveries(self) -> tuple[Delivery, ...]:
        return (*self.earlier, Delivery(self.submissions, self.maps, self.copies, self.trust_file_dates))

    def command(self) -> str:
        """The `headway grade` command that asks for this, for the instructor to copy."""
        options: list[tuple[str, object]] = [("--map", one) for one in self.maps]
        if self.course is None:
            options += [("--out", self.out), ("--chapters", ",".join(self.chapters)), ("--exercises", ",".join(self.exercises)), ("--points", self.points)]
        else:
            is_usual = self.out.resolve() == read_course_file(self.course).folder(self.assignment).resolve()
            options += [("--assignment", self.assignment), ("--course", self.course), ("--out", None if is_usual else self.out)]
        options += [("--seed", self.seed), ("--copies", "" if self.copies == NEWEST else self.copies), ("--key", self.key)]
        flags = [("--trust-file-dates", self.trust_file_dates), ("--anonymous", self.anonymous), ("--require-isolation", self.require_isolation), ("--add", self.earlier)]
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


def _mapped_file(words: str) -> str:
    """The file that "homework3.py=ch03" is about."""
    return words.rpartition("=")[0].strip().lower()


@dataclass(frozen=True)
class Given:
    """The options of a command that otherwise uses the arguments of the last run; what is empty was not given."""

    submissions: Path | None = None
    chapters: tuple[str, ...] = ()
    exercises: tuple[str, ...] = ()
    points: Path | None = None
    seed: int | None = None
    maps: tuple[str, ...] = ()
    copies: str = ""
    trust_file_dates: bool = False
    require_isolation: bool = False
    key: Path | None = None

    @property
    def options_for_class(self) -> list[str]:
        """Those that concern everybody."""
        given = {"--chapters": self.chapters, "--exercises": self.exercises, "--points": self.points, "--seed": self.seed is not None}
        return [option for option, value in given.items() if value]

    def apply(self, asked: Request) -> Request:
        """The request with these options, except those about reading. GradingProblem if they do not go with an assignment."""
        if asked.course:
            refuse_with_assignment({"--chapters": self.chapters, "--exercises": self.exercises, "--points": self.points})
        if self.chapters or self.exercises:
            asked = replace(asked, chapters=self.chapters, exercises=self.exercises)
        if self.submissions:
            others = [one for one in asked.deliveries if one.submissions.exists() and one.submissions.resolve() != self.submissions.resolve()]
            asked = replace(asked, submissions=self.submissions, earlier=tuple(others))
        return replace(
            asked, seed=asked.seed if self.seed is None else self.seed, points=self.points or asked.points,
            require_isolation=self.require_isolation or asked.require_isolation, key=self.key or asked.key,
        )  # fmt: skip


def add_to_last(request: Request, before: Request, given: Given) -> Request:
    """The last request and the submissions of this one; a folder that is there already comes last now, as the newest."""
    base = given.apply(before if before.course == request.course or not request.course else replace(before, chapters=(), exercises=(), points=None))
    others = [one for one in before.deliveries if one.submissions.resolve() != request.submissions.resolve()]
    return replace(
        base, submissions=request.submissions, maps=request.maps, copies=request.copies, trust_file_dates=request.trust_file_dates, earlier=tuple(others),
        course=request.course or base.course, assignment=request.assignment or base.assignment, anonymous=request.anonymous or base.anonymous,
    )  # fmt: skip


def add_own_reading(request: Request, name: str, given: Given) -> Request:
    """The request with the options about reading for this person only; earlier ones stay, except those that are given now."""
    if not (given.maps or given.copies or given.trust_file_dates):
        return request
    old = next((one for one in request.own_reading if name in one.names), OwnReading((name,)))
    new = OwnReading((name,), given.maps or old.maps, given.copies or old.copies, given.trust_file_dates or old.trust_file_dates)
    others = [replace(one, names=tuple(other for other in one.names if other != name)) for one in request.own_reading]
    return replace(request, own_reading=(*(one for one in others if one.names), new))


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
    refuse_with_assignment(others)
    path = find_course(course)
    term = read_course_file(path)
    names = [one.name for one in term.assignments]
    if not assignment and len(names) > 1:
        raise GradingProblem(f"{path.name} has several assignments; name one with --assignment: {', '.join(names)}")
    return term, term.assignment(assignment or names[0])


def refuse_with_assignment(others: Mapping[str, object]) -> None:
    for option, value in others.items():
        if value:
            raise GradingProblem(f"{option} does not go with an assignment: course.toml says what is graded; leave out {option}, or --assignment and --course")


def folder_of(out: Path | None, course: Path | None, assignment: str) -> Path:
    """The folder of a gradebook, for a command that reads or changes one."""
    if course is None and not assignment:
        return out or Path("grades")
    return make_request(Path(), out, "", "", 0, None, False, course, assignment).out


def split_names(words: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in words.split(",") if name.strip())
