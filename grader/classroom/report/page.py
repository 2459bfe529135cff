"""Writes report.html, a single page about one graded class. Equal classes give equal bytes."""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from grader.classroom.judging.graded_class import GradedClass
from grader.classroom.report import tally
from grader.classroom.report.context import NO_CONTEXT, ReportContext
from grader.classroom.report.heatmap import ColumnGroup, Heatmap, make_heatmap
from grader.classroom.report.people import make_person_section, test_title
from grader.classroom.report.person_progress import PersonProgress, compare_with_previous, compute_progress, format_change
from grader.classroom.report.search_words import search_words
from grader.classroom.report.templates import format_chapter, render_template
from grader.classroom.term.roster import Roster, RosterPerson
from grader.files import write_whole

NAME = "report.html"
PRODUCTS = {"kit": "Headway", "torch": "torch", "python": "Python"}
SHOWN_AT_ONCE = 12  # exercises with mistakes, and people in a list; the others are collapsed below them
FAILURES_IN_FULL = 6000  # in the whole page
NARROW = 40  # columns of exercises that fit on a sheet of paper


def write(graded: GradedClass, folder: Path, context: ReportContext = NO_CONTEXT) -> Path:
    """Write report.html into `folder`. ReportProblem if Jinja is missing, OSError if the file cannot be written."""
    path = Path(folder) / NAME
    write_whole(path, render(graded, context))
    return path


def render(graded: GradedClass, context: ReportContext = NO_CONTEXT) -> str:
    return render_template("page", test_title=test_title, first_sentence=first_sentence, **_template_values(graded, context))


def _template_values(graded: GradedClass, context: ReportContext) -> dict[str, Any]:
    everyone = list(enumerate(graded.people, start=1))
    done = [(place, person) for place, person in everyone if not person.problem]
    people = [person for _, person in done]
    tallies = tally.tally_exercises(graded, people)
    mistakes = tally.tally_misconceptions(done)
    progress = compute_progress(graded, context)
    missing, strangers = _compare_with_roster(graded, context.roster)
    return {
        "graded": graded,
        "context": context,
        "newest": _find_newest(graded, context),
        "many": len(people),
        "spread": tally.measure_distribution(people),
        "tallies": [one for one in tallies if one.started],
        "untouched": [one.exercise.name for one in tallies if not one.started],
        "chapters": tally.tally_chapters(graded, people),
        "mistakes": mistakes,
        "groups": tally.group_by_exercise(mistakes),
        "one_case": "submission" if len({person.digest for person in people}) < len(people) else "person",
        "started": {one.exercise.name: one.started for one in tallies},
        "tests": tally.tally_unexplained(done),
        "refused": [(place, person) for place, person in everyone if person.problem and not person.missing],
        "broken": tally.list_broken_chapters(done),
        "shortcuts": _shortcuts(done),
        "late": sum(bool(person.late) for person in people),
        "untimed": [(place, person) for place, person in done if person.is_untimed],
        "at_risk": sorted((one for one in progress if one.is_at_risk), key=lambda one: (one.share, one.started)),
        "search": [search_words(context.roster.find(person.name)) for person in graded.people],
        "missing": missing,
        "strangers": strangers,
        "compared": compare_with_previous(progress, context),
        "changes": [format_change(one.change) for one in progress],
        "map": _make_map(graded, progress),
        "narrow": NARROW,
        "shown": [make_person_section(place, person, graded.exercises, max(2, FAILURES_IN_FULL // len(everyone))) for place, person in everyone],
        "versions": ", ".join(f"{PRODUCTS.get(name, name)} {version}" for name, version in sorted(graded.versions.items())),
        "at_once": SHOWN_AT_ONCE,
    }


def first_sentence(text: str) -> tuple[str, str]:
    """The first sentence of a text, and the rest."""
    first, *rest = re.split(r"(?<=[.!?]) (?=[A-Z])", text, maxsplit=1)
    return first, rest[0] if rest else ""


def _shortcuts(done: list[tally.NumberedPerson]) -> list[tuple[tally.NumberedPerson, str, list[str]]]:
    """The people who called a forbidden function, with the exercise and how."""
    return [((place, person), result.exercise.name, result.forbidden) for place, person in done for result in person.results if result.forbidden]


def _compare_with_roster(graded: GradedClass, roster: Roster) -> tuple[list[RosterPerson], list[tally.NumberedPerson]]:
    """The people of the roster without a submission, and those with a submission who are not in the roster."""
    if not roster.people:
        return [], []
    found = [(place, person, roster.find(person.name)) for place, person in enumerate(graded.people, start=1) if not person.missing]
    known = {who for _, _, who in found if who}
    return [who for who in roster.people if who not in known], [(place, person) for place, person, who in found if who is None]


def _make_map(graded: GradedClass, progress: list[PersonProgress]) -> Heatmap:
    worth = {name: mark.points for person in graded.people for name, mark in person.marks.items()}
    chapters: dict[str, list[tuple[str, Decimal]]] = {}
    for exercise in graded.exercises:
        chapters.setdefault(exercise.chapter, []).append((exercise.name, worth.get(exercise.name, Decimal(0))))
    return make_heatmap(progress, [ColumnGroup(format_chapter(chapter), names, [*graded.people]) for chapter, names in chapters.items()])


def _find_newest(graded: GradedClass, context: ReportContext) -> str:
    """The time of the newest submission, in the time zone of the due date; "" if no time is known."""
    times = [time for person in graded.people if (time := _parse_time(person.submitted))]
    return max(times).astimezone(context.due.tzinfo if context.due else max(times).tzinfo).isoformat() if times else ""


def _parse_time(text: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else None
