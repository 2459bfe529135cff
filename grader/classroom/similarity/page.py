"""Writes similarity.html: the pairs of a class, with their code side by side. It fetches nothing; equal classes give equal bytes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from grader.classroom.intake.problems import GradingProblem
from grader.classroom.report.templates import render_template
from grader.classroom.similarity.comparison import Comparison
from grader.classroom.similarity.excerpts import LONGEST, Line
from grader.classroom.similarity.pairs import Pair
from grader.files import problem, write_whole

NAME = "similarity.html"
HERE = Path(__file__).parent
MOST_PAIRS = 40  # side by side
MOST_EXERCISES = 8  # of one pair side by side
SHOWN_AT_ONCE = 12  # names in one sentence


@dataclass(frozen=True)
class ShownExercise:
    title: str
    percent: int
    sides: tuple[list[Line], list[Line]]
    left_out: int  # lines at the end of the longer side


@dataclass(frozen=True)
class ShownPair:
    number: int
    names: tuple[str, str]
    pair: Pair
    lines: int
    exercises: list[ShownExercise]
    more: list[str]  # alike exercises whose code is not shown


def write(comparison: Comparison, folder: Path, title: str) -> Path:
    """Write similarity.html into `folder`. ReportProblem if Jinja is missing, GradingProblem if the file cannot be written."""
    try:
        write_whole(folder / NAME, render(comparison, title))
    except OSError as error:
        raise GradingProblem(problem(error, f"write {NAME} in {folder}")) from error
    return folder / NAME


def render(comparison: Comparison, title: str) -> str:
    pairs = [_show(comparison, number, pair) for number, pair in enumerate(comparison.pairs[:MOST_PAIRS], start=1)]
    return render_template("similarity", HERE, title=title, comparison=comparison, pairs=pairs, at_once=SHOWN_AT_ONCE)


def _show(comparison: Comparison, number: int, pair: Pair) -> ShownPair:
    shown = []
    for alike in pair.alike[:MOST_EXERCISES]:
        first, second = comparison.excerpts(pair, alike)
        left_out = max(0, len(first) - LONGEST, len(second) - LONGEST)
        shown.append(ShownExercise(_title(alike.module, alike.name), alike.percent, (first[:LONGEST], second[:LONGEST]), left_out))
    more = [f"{_title(one.module, one.name)} ({one.percent} %)" for one in pair.alike[MOST_EXERCISES:]]
    return ShownPair(number, comparison.names(pair), pair, comparison.count_lines(pair), shown, more)


def _title(module: str, name: str) -> str:
    return name or f"other code of {module}.py"
