"""Writes report.html, a single page about one graded class. Equal classes give equal bytes."""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from grader.classroom.judging.graded_class import GradedClass, Person
from grader.classroom.report import tally
from grader.classroom.report.context import NO_CONTEXT, ReportContext, compute_progress
from grader.classroom.report.marks_page import ColumnGroup, make_heatmap, search_words
from grader.classroom.report.templates import format_chapter, render_template
from grader.files import write_whole
from grader.runner.layout import ALSO
from grader.verdict.results import TestResult, replaced_sentences

NAME = "report.html"
PRODUCTS = {"kit": "Headway", "torch": "torch", "python": "Python"}
SHOWN_AT_ONCE = 12  # exercises with mistakes, and people in a list; the others are collapsed below them
FAILURES_IN_FULL = 6000  # in the whole page: a page about a whole course of many people must load
NARROW_COLUMNS = 40  # of exercises that fit on a sheet of paper


def write(graded: GradedClass, folder: Path, context: ReportContext = NO_CONTEXT) -> Path:
    """Write report.html into `folder`. ReportProblem if Jinja is missing, OSError if the file cannot be written."""
    write_whole(folder / NAME, render(graded, context))
    return folder / NAME


def render(graded: GradedClass, context: ReportContext = NO_CONTEXT) -> str:
    everyone = list(enumerate(graded.people, start=1))
    done = [(place, person) for place, person in everyone if not person.problem]
    people = [person for _, person in done]
    progress = compute_progress(graded, context)
    compared = [one for one in progress if one.before is not None and not one.person.problem]
    now, before = sum(one.share for one in compared), sum(one.before or 0 for one in compared)
    tallies, mistakes = tally.tally_exercises(graded, people), tally.tally_misconceptions(done)
    roster = context.roster
    owners = [(place, person, roster.find(person.name)) for place, person in everyone if not person.missing]
    known = {who for _, _, who in owners}
    worth = {name: mark.points for person in graded.people for name, mark in person.marks.items()}
    chapters: dict[str, list[tuple[str, Decimal]]] = {}
    for exercise in graded.exercises:
        chapters.setdefault(exercise.chapter, []).append((exercise.name, worth.get(exercise.name, Decimal(0))))
    columns = [ColumnGroup(format_chapter(one), names, [*graded.people]) for one, names in chapters.items()]
    in_full = max(2, FAILURES_IN_FULL // max(1, len(everyone)))
    return render_template(
        "page",
        graded=graded,
        context=context,
        test_title=_format_title,
        first_sentence=first_sentence,
        replaced_sentences=replaced_sentences,
        most_also=ALSO,
        newest=_find_newest(graded, context),
        many=len(people),
        spread=tally.measure_distribution(people),
        tallies=[one for one in tallies if one.started],
        untouched=[one.exercise.name for one in tallies if not one.started],
        chapters=tally.tally_chapters(graded, people),
        mistakes=mistakes,
        groups=tally.group_by_exercise(mistakes),
        one_case="submission" if len({person.digest for person in people}) < len(people) else "person",
        started={one.exercise.name: one.started for one in tallies},
        tests=tally.tally_unexplained(done),
        refused=[(place, person) for place, person in everyone if person.problem and not person.missing],
        broken=[(one, module, one[1].broken[module]) for one in done for module in sorted(one[1].broken)],
        shortcuts=[(one, result) for one in done for result in one[1].results if result.forbidden],
        late=sum(bool(person.late) for person in people),
        untimed=[(place, person) for place, person in done if person.is_untimed],
        at_risk=sorted((one for one in progress if one.is_at_risk), key=lambda one: (one.share, one.started)),
        search=[search_words(roster.find(person.name)) for person in graded.people],
        missing=[who for who in roster.people if who not in known],
        strangers=[(place, person) for place, person, who in owners if who is None and roster.people],
        compared=len(compared),
        means=[total / max(1, len(compared)) for total in (before, now)],
        changes=[format_change(one.change) for one in progress],
        map=make_heatmap(progress, columns),
        narrow=NARROW_COLUMNS,
        shown=[_make_section(place, person, graded, in_full) for place, person in everyone],
        versions=", ".join(f"{PRODUCTS.get(name, name)} {graded.versions[name]}" for name in sorted(graded.versions)),
        at_once=SHOWN_AT_ONCE,
    )


def _make_section(place: int, person: Person, graded: GradedClass, in_full: int) -> dict[str, Any]:
    """A person's section: each exercise without full points, and at most `in_full` failures in full."""
    kinds, exercises = tally.classify_all(person, graded.exercises), graded.exercises
    modules = {module: [one.name for one in exercises if one.module == module] for module in sorted(person.broken)}
    incomplete = {name for name, kind in kinds.items() if kind not in ("passed", "todo")}
    runs = [result for result in person.results if result.exercise.module not in modules]
    return {
        "place": place,
        "person": person,
        "names": {kind: [name for name, own in kinds.items() if own == kind] for kind in tally.KINDS},
        "broken": modules,
        "works": [result for result in runs if result.exercise.name in incomplete],
        "in_full": in_full,
    }


def first_sentence(text: str) -> tuple[str, str]:
    """The first sentence of a text, and the rest."""
    first, *rest = re.split(r"(?<=[.!?]) (?=[A-Z])", text, maxsplit=1)
    return first, rest[0] if rest else ""


def format_change(change: int | None) -> str:
    """+5, −12, 0; "" for None."""
    return "" if change is None else f"+{change}" if change > 0 else f"−{-change}" if change < 0 else "0"


def _format_title(test: TestResult) -> str:
    return f"{test.outcome.upper()} {tally.plain_name(test.name)}"


def _find_newest(graded: GradedClass, context: ReportContext) -> str:
    """The time of the newest submission, in the time zone of the due date; "" if no time is known."""
    times = [datetime.fromisoformat(person.submitted) for person in graded.people if person.submitted]
    return max(times).astimezone(context.due.tzinfo if context.due else max(times).tzinfo).isoformat() if times else ""
