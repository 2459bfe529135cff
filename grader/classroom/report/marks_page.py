"""Writes marks.html, the instructor's page of a term: totals, and a map of people and exercises. It can be sorted and searched, and fetches nothing."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from statistics import median

from grader.classroom.anonymous.pseudonyms import LARGE_SECTION
from grader.classroom.judging.graded_class import GradedClass
from grader.classroom.report.heatmap import ColumnGroup, make_heatmap
from grader.classroom.report.search_words import search_words
from grader.classroom.report.templates import render_template
from grader.classroom.term.marks import PersonMarks, TermMarks
from grader.files import write_whole

NAME = "marks.html"
SHOWN_AT_ONCE = 10  # names in one sentence


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
    waiting: list[PersonMarks]  # whose run is not finished
    exercises: list[tuple[str, Decimal]]  # with the points that they are worth


def write(marks: TermMarks, folder: Path) -> Path:
    """Write marks.html into `folder`. ReportProblem if Jinja is missing, OSError if the file cannot be written."""
    write_whole(folder / NAME, render(marks))
    return folder / NAME


def render(marks: TermMarks) -> str:
    assignments = [_summary(marks, name, one_class) for name, one_class in marks.classes.items()]
    groups = [ColumnGroup(one.title, one.exercises, [person.marks[one.name].person for person in marks.people]) for one in assignments]
    percents = [person.percent for person in marks.people if person.percent is not None]
    return render_template(
        "marks",
        title=marks.course.title or marks.course.path.parent.name,
        people=marks.people,
        assignments=assignments,
        waiting=[one.title for one in marks.course.assignments if one.name not in marks.classes],
        median=median(percents) if percents else None,
        mean=sum(percents, Decimal(0)) / len(percents) if percents else None,
        strangers=[person for person in marks.people if marks.course.roster.people and not person.in_roster],
        anonymous=marks.course.is_anonymous,
        large_section=LARGE_SECTION,
        search_words=search_words,
        drops=marks.course.drops,
        notes=marks.notes,
        at_once=SHOWN_AT_ONCE,
        map=make_heatmap(marks.people, groups),
    )


def _summary(marks: TermMarks, name: str, one_class: GradedClass) -> AssignmentSummary:
    assignment = marks.course.assignment(name)
    done = [person for person in marks.people if name not in person.missing and name not in person.waiting]
    earned = [person.marks[name].earned for person in done]
    worth = next((person.marks for person in one_class.people), {})
    submitted = sum(1 for person in marks.people if (one := person.marks[name].person) and not one.missing)
    return AssignmentSummary(
        name, assignment.title, assignment.weight, one_class.points, submitted, sum(earned, Decimal(0)) / len(earned) if earned else Decimal(0),
        [person for person in marks.people if name in person.missing],
        [person for person in done if (one := person.marks[name].person) and one.problem and not one.missing],
        [person for person in marks.people if name in person.waiting],
        [(exercise.name, worth[exercise.name].points if exercise.name in worth else Decimal(0)) for exercise in one_class.exercises],
    )  # fmt: skip
