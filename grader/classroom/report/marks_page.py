"""Writes marks.html, the instructor's page of a term: totals, and a map of people and exercises. It can be sorted and searched, and fetches nothing."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from statistics import median_low

from grader.classroom.judging.graded_class import GradedClass, Mark
from grader.classroom.report.numbers import format_number
from grader.classroom.report.templates import render_template
from grader.classroom.term.marks import PersonMarks, TermMarks
from grader.files import write_whole

NAME = "marks.html"
SHOWN_AT_ONCE = 10  # names in one sentence
Cell = tuple[str, str, str]  # the class of its colour, the value for sorting, the text


@dataclass(frozen=True)
class AssignmentSummary:
    name: str
    title: str
    weight: Decimal
    points: Decimal
    submitted: int
    mean: Decimal  # of those who submitted
    missing: list[PersonMarks]
    problems: list[PersonMarks]
    exercises: list[tuple[str, Decimal]]  # with the points that they are worth


def write(marks: TermMarks, folder: Path) -> Path:
    """Write marks.html into `folder`. ReportProblem if Jinja is missing, OSError if the file cannot be written."""
    write_whole(folder / NAME, render(marks))
    return folder / NAME


def render(marks: TermMarks) -> str:
    assignments = [_summary(marks, name, one_class) for name, one_class in marks.classes.items()]
    columns = [(one.name, exercise, points) for one in assignments for exercise, points in one.exercises]
    percents = [person.percent for person in marks.people if person.percent is not None]
    return render_template(
        "marks",
        title=marks.course.title or marks.course.path.parent.name,
        people=marks.people,
        assignments=assignments,
        waiting=[one.title for one in marks.course.assignments if one.name not in marks.classes],
        median=median_low(percents) if percents else None,
        mean=sum(percents, Decimal(0)) / len(percents) if percents else None,
        strangers=[person for person in marks.people if marks.course.roster.people and not person.in_roster],
        drops=marks.course.drops,
        notes=marks.notes,
        at_once=SHOWN_AT_ONCE,
        rows=[(person, [_cell(person, name, exercise) for name, exercise, _ in columns]) for person in marks.people],
        means=[_mean(marks, name, exercise, points) for name, exercise, points in columns],
    )


def _summary(marks: TermMarks, name: str, one_class: GradedClass) -> AssignmentSummary:
    assignment = marks.course.assignment(name)
    done = [person for person in marks.people if name not in person.missing]
    earned = [person.marks[name].earned for person in done]
    worth = next((person.marks for person in one_class.people), {})
    return AssignmentSummary(
        name, assignment.title, assignment.weight, one_class.points, len(done), sum(earned, Decimal(0)) / len(earned) if earned else Decimal(0),
        [person for person in marks.people if name in person.missing],
        [person for person in done if (one := person.marks[name].person) and one.problem],
        [(exercise.name, worth[exercise.name].points if exercise.name in worth else Decimal(0)) for exercise in one_class.exercises],
    )  # fmt: skip


def _cell(person: PersonMarks, assignment: str, exercise: str) -> Cell:
    graded = person.marks[assignment].person
    if graded is None or (graded.problem and exercise not in graded.given):
        return "", "", "–"
    mark = graded.marks[exercise]
    return _level(mark), str(mark.earned), format_number(mark.earned) + ("*" if exercise in graded.given else "")


def _mean(marks: TermMarks, assignment: str, exercise: str, points: Decimal) -> Cell:
    earned = [one.marks[exercise].earned for one in marks.classes[assignment].people if not one.problem]
    mean = sum(earned, Decimal(0)) / len(earned) if earned else Decimal(0)
    return _level(Mark(mean, points)), str(mean), format_number(mean)


def _level(mark: Mark) -> str:
    """Which of the five colours this share of the points has."""
    share = Fraction(mark.earned) / Fraction(mark.points) if mark.points else Fraction(1)
    return "l4" if share >= 1 else "l3" if share >= Fraction(4, 5) else "l2" if share >= Fraction(1, 2) else "l1" if share > 0 else "l0"
