"""Writes marks.html, the instructor's page of a term: totals, and a map of people and exercises.

The report has such a map, too. The page can be sorted and searched, and fetches nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from statistics import median
from typing import Any

from grader.classroom.anonymous.pseudonyms import LARGE_SECTION
from grader.classroom.judging.graded_class import GradedClass, Mark, Person
from grader.classroom.report.numbers import format_number
from grader.classroom.report.templates import render_template
from grader.classroom.term.marks import TermMarks
from grader.classroom.term.roster import RosterPerson
from grader.files import write_whole

NAME = "marks.html"
SHOWN_AT_ONCE = 10  # names in one sentence
Cell = tuple[str, str | None, str]  # the class of its colour, the value for sorting if it is not the text, the text


@dataclass(frozen=True)
class ColumnGroup:
    """Neighbouring columns with a common heading: the exercises of an assignment or of a chapter."""

    title: str
    exercises: list[tuple[str, Decimal]]  # with the points that they are worth
    people: list[Person | None]  # whose points these columns have, for each row; None if nothing was submitted


@dataclass(frozen=True)
class Heatmap:
    """A map of people and exercises: a cell has the points, and a colour for their share."""

    groups: list[ColumnGroup]
    rows: list[tuple[Any, list[Cell]]]  # with the owner of each row
    means: list[Cell]

    @property
    def columns(self) -> int:
        return len(self.means)


def write(marks: TermMarks, folder: Path) -> Path:
    """Write marks.html into `folder`. ReportProblem if Jinja is missing, OSError if the file cannot be written."""
    write_whole(folder / NAME, render(marks))
    return folder / NAME


def render(marks: TermMarks) -> str:
    course, people = marks.course, marks.people
    assignments = [_summarize(marks, name, one_class) for name, one_class in marks.classes.items()]
    groups = [
        ColumnGroup(one["title"], one["exercises"], [person.marks[one["name"]].person for person in people])
        for one in assignments
    ]
    percents = [person.percent for person in people if person.percent is not None]
    return render_template(
        "marks",
        title=course.title or course.path.parent.name,
        people=people,
        assignments=assignments,
        waiting=[one.title for one in course.assignments if one.name not in marks.classes],
        median=median(percents) if percents else None,
        mean=_mean(percents) if percents else None,
        strangers=[person for person in people if course.roster.people and not person.in_roster],
        anonymous=course.is_anonymous,
        large_section=LARGE_SECTION,
        search_words=search_words,
        drops=course.drops,
        notes=marks.notes,
        at_once=SHOWN_AT_ONCE,
        map=make_heatmap(people, groups),
    )


def _summarize(marks: TermMarks, name: str, one_class: GradedClass) -> dict[str, Any]:
    """What the page says about one assignment."""
    assignment, people = marks.course.assignment(name), marks.people
    done = [person for person in people if name not in person.missing and name not in person.waiting]
    worth = next((person.marks for person in one_class.people), {})
    return {
        "name": name,
        "title": assignment.title,
        "weight": assignment.weight,
        "points": one_class.points,
        "submitted": sum(1 for person in people if (one := person.marks[name].person) and not one.missing),
        "mean": _mean([person.marks[name].earned for person in done]),
        "missing": [person for person in people if name in person.missing],
        "problems": [one for one in done if (own := one.marks[name].person) and own.problem and not own.missing],
        "waiting": [person for person in people if name in person.waiting],  # whose run is not finished
        "exercises": [
            (one.name, worth[one.name].points if one.name in worth else Decimal(0)) for one in one_class.exercises
        ],
    }


def _mean(values: Sequence[Decimal]) -> Decimal:
    return sum(values, Decimal(0)) / max(1, len(values))


def search_words(who: RosterPerson | None) -> str:
    """The words of the roster by which the search of a page finds a person, besides the name."""
    return " ".join(filter(None, (who.login, who.number, who.email, who.section, who.group))) if who else ""


def make_heatmap(owners: Sequence[Any], groups: list[ColumnGroup]) -> Heatmap:
    """The map with a row for each owner, in this order."""
    rows: list[tuple[Any, list[Cell]]] = []
    means: list[Cell] = []
    for place, owner in enumerate(owners):
        rows.append((owner, [_cell(group.people[place], name) for group in groups for name, _ in group.exercises]))
    for group in groups:
        for name, points in group.exercises:
            mean = _mean([one.marks[name].earned for one in group.people if one and not one.problem])
            means.append((_level(Mark(mean, points)), None, format_number(mean)))
    return Heatmap(groups, rows, means)


def _cell(graded: Person | None, exercise: str) -> Cell:
    if graded is None or (graded.problem and exercise not in graded.given):
        return "", "", "–"
    mark = graded.marks[exercise]
    shown = format_number(mark.earned)
    return (_level(mark), shown, f"{shown}*") if exercise in graded.given else (_level(mark), None, shown)


def _level(mark: Mark) -> str:
    """Which of the five colours this share of the points has."""
    share = Fraction(mark.earned) / Fraction(mark.points) if mark.points else Fraction(1)
    return f"l{sum((share > 0, 2 * share >= 1, 5 * share >= 4, share >= 1))}"
