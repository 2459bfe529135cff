"""The map of people and exercises: a cell has the points, and a colour for their share. The report and marks.html show it (heatmap.html)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from grader.classroom.judging.graded_class import Mark, Person
from grader.classroom.report.numbers import format_number

Cell = tuple[str, str | None, str]  # the class of its colour, the value for sorting if it is not the text, the text


@dataclass(frozen=True)
class ColumnGroup:
    """Neighbouring columns with a common heading: the exercises of an assignment or of a chapter."""

    title: str
    exercises: list[tuple[str, Decimal]]  # with the points that they are worth
    people: list[Person | None]  # whose points these columns have, a person for each row; None if nothing was submitted


@dataclass(frozen=True)
class Heatmap:
    groups: list[ColumnGroup]
    rows: list[tuple[Any, list[Cell]]]  # with the owner of each row
    means: list[Cell]

    @property
    def columns(self) -> int:
        return len(self.means)


def make_heatmap(owners: Sequence[Any], groups: list[ColumnGroup]) -> Heatmap:
    """The map with a row for each owner, in this order."""
    rows = [(owner, [_cell(group.people[place], name) for group in groups for name, _ in group.exercises]) for place, owner in enumerate(owners)]
    return Heatmap(groups, rows, [_mean(group, name, points) for group in groups for name, points in group.exercises])


def _cell(graded: Person | None, exercise: str) -> Cell:
    if graded is None or (graded.problem and exercise not in graded.given):
        return "", "", "–"
    mark = graded.marks[exercise]
    shown = format_number(mark.earned)
    return (_level(mark), shown, f"{shown}*") if exercise in graded.given else (_level(mark), None, shown)


def _mean(group: ColumnGroup, exercise: str, points: Decimal) -> Cell:
    earned = [one.marks[exercise].earned for one in group.people if one and not one.problem]
    mean = sum(earned, Decimal(0)) / len(earned) if earned else Decimal(0)
    return _level(Mark(mean, points)), None, format_number(mean)


def _level(mark: Mark) -> str:
    """Which of the five colours this share of the points has."""
    share = Fraction(mark.earned) / Fraction(mark.points) if mark.points else Fraction(1)
    return "l4" if share >= 1 else "l3" if share >= Fraction(4, 5) else "l2" if share >= Fraction(1, 2) else "l1" if share > 0 else "l0"
