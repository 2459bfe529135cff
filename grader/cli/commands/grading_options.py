"""What `headway grade` grades, and how.

The options of the last run are stored beside the gradebook, for the commands that read it later.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from grader.classroom.anonymous import key_file
from grader.classroom.intake.problems import GradingProblem
from grader.classroom.judging.rules import Rules
from grader.classroom.sanitize import line
from grader.classroom.term.course import Assignment, Course, find_course, read_course_file
from grader.course.status import read_course
from grader.course.syllabus import Exercise
from grader.files import problem, write_whole

OPTIONS_FILE = "asked.json"  # next to the gradebook


@dataclass(frozen=True)
class GradingOptions:
    """The options as texts and numbers; paths are absolute, and an empty text means that the option was not given."""

    submissions: tuple[str, ...] = ()  # the folders, the first one graded first
    chapters: tuple[str, ...] = ()
    exercises: tuple[str, ...] = ()
    seed: int = 0
    course: str = ""
    assignment: str = ""  # of the course: it says which exercises, and the rules
    require_isolation: bool = False
    anonymous: bool = False
    key: str = ""  # of the pseudonyms; empty for the usual place
    command: str = ""  # `headway grade ...` as it was typed; never `headway regrade NAME`, which names a person

    def key_path(self, out: Path) -> Path:
        """Usually next to the course file, for all its assignments; else next to the folder of the grades."""
        beside = Path(self.course) if self.course else out.resolve()
        return Path(self.key) if self.key else beside.parent / key_file.NAME

    def resolve(self) -> tuple[list[Exercise], Rules, Course | None]:
        """The exercises in the course's order (all if none is named), the rules, and the course.

        GradingProblem or UnknownName if they do not fit.
        """
        if not self.course:
            return read_course().chosen([*self.chapters, *self.exercises]), Rules(), None
        term = read_course_file(Path(self.course))
        assignment = term.assignment(self.assignment)
        return list(assignment.exercises), assignment.rules, term

    def changed_by(self, given: GradingOptions, seed: int | None) -> GradingOptions:
        """These options, except those that are given. GradingProblem if they do not go together."""
        if self.course:
            refuse_with_assignment({f"--{name}": getattr(given, name) for name in ("chapters", "exercises")})
        changes = {name: value for name, value in vars(given).items() if value}
        if given.chapters or given.exercises:
            changes |= {"chapters": given.chapters, "exercises": given.exercises}
        return replace(self, **changes | {"seed": self.seed if seed is None else seed})

    def differences(self, other: GradingOptions) -> list[str]:
        """The options about what is graded that differ, as typed."""
        names = ("chapters", "exercises", "seed")
        return [f"--{name}" for name in names if getattr(self, name) != getattr(other, name)]


def absolute(path: Path | None) -> str:
    return str(path.resolve()) if path else ""


# ---- stored options


def store_options(options: GradingOptions, out: Path) -> None:
    """GradingProblem if the file cannot be written."""
    try:
        write_whole(out / OPTIONS_FILE, json.dumps(asdict(options), indent=1) + "\n")
    except OSError as trouble:
        raise GradingProblem(problem(trouble, f"write {OPTIONS_FILE} in {out}")) from trouble


def read_options(out: Path) -> GradingOptions | None:
    """The options of the last run into this folder; None if there was none.

    GradingProblem if the file is damaged, or has options that this version does not have.
    """
    where = line(str(out / OPTIONS_FILE))
    try:
        stored: dict[str, Any] = json.loads((out / OPTIONS_FILE).read_text(encoding="utf-8"))
        values: dict[str, Any] = {
            name: tuple(map(str, value)) if isinstance(value, list) else value for name, value in stored.items()
        }
        defaults = vars(GradingOptions())
        unknown = {name for name in values.keys() - defaults.keys() if values[name]}  # and was used
        values = {name: value for name, value in values.items() if name in defaults}
        if any(type(value) is not type(defaults[name]) for name, value in values.items()):
            raise TypeError
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        advice = "delete it, and run the `headway grade` command for this folder again"
        raise GradingProblem(f"{where} is damaged; {advice}") from None
    if unknown:
        advice = "to grade everything again, choose another folder with --out"
        raise GradingProblem(f"{where} was written by another version of Headway; {advice}")
    return GradingOptions(**values)


def last_options(out: Path) -> GradingOptions:
    """Like `read_options`; GradingProblem too if there was no run."""
    stored = read_options(out)
    if stored is None:
        advice = "choose the right one with --out, or with --assignment"
        raise GradingProblem(f"{line(str(out))} is not a folder that `headway grade` has written to; {advice}")
    return stored


# ---- options that name an assignment


def choose_assignment(
    course: Path | None, assignment: str, others: Mapping[str, object]
) -> tuple[Course, Assignment] | None:
    """The course and the assignment that these options name; None if they name none.

    GradingProblem if one of the other options, by name, is given too.
    """
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
            reason = f"course.toml says what is graded; leave out {option}, or --assignment and --course"
            raise GradingProblem(f"{option} does not go with an assignment: {reason}")


def default_folder(chosen: tuple[Course, Assignment] | None) -> Path:
    return chosen[0].folder(chosen[1].name) if chosen else Path("grades")


def folder_of(out: Path | None, course: Path | None, assignment: str) -> Path:
    """The folder of a gradebook, for a command that reads or changes one."""
    return out or default_folder(choose_assignment(course, assignment, {}))
