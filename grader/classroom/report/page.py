"""Writes report.html, a single page about one graded class. Equal classes give equal bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grader.classroom.judging.graded_class import GradedClass
from grader.classroom.report import tally
from grader.classroom.report.people import failure_rows, make_person_section, test_title
from grader.classroom.report.templates import render_template
from grader.files import write_whole

NAME = "report.html"
PRODUCTS = {"kit": "Headway", "torch": "torch", "python": "Python"}
SHOWN_AT_ONCE = 12  # mistakes and exercises; the others are collapsed below them


def write(graded: GradedClass, folder: Path) -> Path:
    """Write report.html into `folder`. ReportProblem if Jinja is missing, OSError if the file cannot be written."""
    path = Path(folder) / NAME
    write_whole(path, render(graded))
    return path


def render(graded: GradedClass) -> str:
    return render_template("page", failure_rows=failure_rows, test_title=test_title, **_template_values(graded))


def _template_values(graded: GradedClass) -> dict[str, Any]:
    everyone = list(enumerate(graded.people, start=1))
    done = [(place, person) for place, person in everyone if not person.problem]
    people = [person for _, person in done]
    exercises = [exercise.name for exercise in graded.exercises]
    tallies = tally.tally_exercises(graded, people)
    return {
        "graded": graded,
        "many": len(people),
        "spread": tally.measure_distribution(people),
        "tallies": [one for one in tallies if one.started],
        "untouched": [one.exercise.name for one in tallies if not one.started],
        "chapters": tally.tally_chapters(graded, people),
        "mistakes": tally.tally_misconceptions(done),
        "started": {one.exercise.name: one.started for one in tallies},
        "tests": tally.tally_unexplained(done),
        "refused": [(place, person) for place, person in everyone if person.problem],
        "broken": tally.list_broken_chapters(done),
        "shortcuts": _shortcuts(done),
        "late": sum(bool(person.late) for person in people),
        "shown": [make_person_section(place, person, exercises) for place, person in everyone],
        "versions": ", ".join(f"{PRODUCTS.get(name, name)} {version}" for name, version in sorted(graded.versions.items())),
        "at_once": SHOWN_AT_ONCE,
    }


def _shortcuts(done: list[tally.NumberedPerson]) -> list[tuple[tally.NumberedPerson, str, list[str]]]:
    """The people who called a forbidden function, with the exercise and how."""
    return [((place, person), result.exercise.name, result.forbidden) for place, person in done for result in person.results if result.forbidden]
