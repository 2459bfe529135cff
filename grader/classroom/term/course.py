"""A course of a term: its people, and its assignments with their rules."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from grader.classroom.intake.problems import GradingProblem
from grader.classroom.judging.rules import Rules
from grader.classroom.judging.toml_values import suggest
from grader.classroom.sanitize import shorten
from grader.classroom.term.roster import Roster
from grader.course.syllabus import Exercise, load_syllabus

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

    def assignment(self, name: str) -> Assignment:
        for one in self.assignments:
            if one.name == name:
                return one
        names = [one.name for one in self.assignments]
        where = f"{self.path.name} has no assignment {shorten(name)}{suggest(name, names)}"
        raise GradingProblem(f"{where}; its assignments are {', '.join(names)}")

    def hidden_in(self, assignment: Assignment) -> list[str]:
        """What a handout for this assignment hides: of its chapters, what any assignment hides."""
        chapters = {exercise.chapter for exercise in assignment.exercises}
        names = {name for one in self.assignments for name in one.hidden}
        return [one.name for one in load_syllabus().exercises if one.name in names and one.chapter in chapters]

    def folder(self, name: str) -> Path:
        """The folder of an assignment's gradebook."""
        return self.path.parent / GRADES / name
