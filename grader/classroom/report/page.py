"""Writes report.html, a single page about one graded class. Equal classes give equal bytes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from grader.classroom.judging.graded_class import GradedClass, Mark, Person
from grader.classroom.report import tally
from grader.classroom.report.templates import format_chapter, format_number, render_template
from grader.classroom.term.course import Course
from grader.classroom.term.roster import NO_ROSTER, Roster, RosterPerson
from grader.files import write_whole
from grader.runner.layout import MAX_ALSO_FAILED
from grader.verdict.results import TestResult, replaced_sentences

NAME = "report.html"
PRODUCTS = {"kit": "Headway", "torch": "torch", "python": "Python"}
SHOWN_AT_ONCE = 12  # mistakes, and exercises with unexplained failures; the others are collapsed below them
FAILURES_IN_FULL = 6000  # in the whole page: a page about a whole course of many people must load
NARROW_COLUMNS = 40  # of exercises that fit on a sheet of paper


@dataclass(frozen=True)
class ReportContext:
    """What the report says about a class besides its results; empty for a class without a course file."""

    course: str = ""
    assignment: str = ""
    due: datetime | None = None
    roster: Roster = NO_ROSTER


NO_CONTEXT = ReportContext()


def read_context(course: Course | None, name: str) -> ReportContext:
    if course is None:
        return NO_CONTEXT
    one = course.assignment(name)
    return ReportContext(course.title or course.path.parent.name, one.title, one.rules.due, course.roster)


def write(graded: GradedClass, folder: Path, context: ReportContext = NO_CONTEXT) -> Path:
    """Write report.html into `folder`. ReportProblem if Jinja is missing, OSError if the file cannot be written."""
    write_whole(folder / NAME, render(graded, context))
    return folder / NAME


def render(graded: GradedClass, context: ReportContext = NO_CONTEXT) -> str:
    everyone = list(enumerate(graded.people, start=1))
    done = [(place, person) for place, person in everyone if not person.problem]
    people = [person for _, person in done]
    tallies, mistakes = tally.tally_exercises(graded, people), tally.tally_misconceptions(done)
    roster = context.roster
    owners = [(place, person, roster.find(person.name)) for place, person in everyone if not person.missing]
    known = {who for _, _, who in owners}
    in_full = max(2, FAILURES_IN_FULL // max(1, len(everyone)))
    return render_template(
        "page",
        graded=graded,
        context=context,
        test_title=_format_title,
        first_sentence=first_sentence,
        replaced_sentences=replaced_sentences,
        most_also=MAX_ALSO_FAILED,
        newest=_find_newest(graded, context),
        many=len(people),
        spread=tally.measure_distribution(people),
        tallies=[one for one in tallies if one.started],
        untouched=[one.exercise.name for one in tallies if not one.started],
        chapters=list(dict.fromkeys(exercise.chapter for exercise in graded.exercises)),
        mistakes=mistakes,
        one_case="submission" if len({person.digest for person in people}) < len(people) else "person",
        started={one.exercise.name: one.started for one in tallies},
        tests=tally.tally_unexplained(done),
        refused=[(place, person) for place, person in everyone if person.problem and not person.missing],
        broken=[(one, module, one[1].broken[module]) for one in done for module in sorted(one[1].broken)],
        shortcuts=[(one, result) for one in done for result in one[1].results if result.forbidden],
        late=sum(bool(person.late) for person in people),
        untimed=[(place, person) for place, person in done if person.is_untimed],
        at_risk=tally.find_at_risk(done, graded.exercises),
        search=[_search_words(roster.find(person.name)) for person in graded.people],
        missing=[who for who in roster.people if who not in known],
        strangers=[(place, person) for place, person, who in owners if who is None and roster.people],
        map=_make_heatmap(graded),
        share=tally.compute_share,
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


def _format_title(test: TestResult) -> str:
    return f"{test.outcome.upper()} {tally.plain_name(test.name)}"


def _find_newest(graded: GradedClass, context: ReportContext) -> str:
    """The time of the newest submission, in the time zone of the due date; "" if no time is known."""
    times = [datetime.fromisoformat(person.submitted) for person in graded.people if person.submitted]
    return max(times).astimezone(context.due.tzinfo if context.due else max(times).tzinfo).isoformat() if times else ""


def _search_words(who: RosterPerson | None) -> str:
    """The words of the roster by which the search of the page finds a person, besides the name."""
    return " ".join(filter(None, (who.login, who.number, who.email, who.section, who.group))) if who else ""


# ---- the map of people and exercises


def _make_heatmap(graded: GradedClass) -> dict[str, Any]:
    """The map: a cell has the points of a person in an exercise, with the class of the colour for their share."""
    worth = {name: mark.points for person in graded.people for name, mark in person.marks.items()}
    groups: dict[str, list[tuple[str, Decimal]]] = {}
    means = []
    for exercise in graded.exercises:
        points = worth.get(exercise.name, Decimal(0))
        groups.setdefault(format_chapter(exercise.chapter), []).append((exercise.name, points))
        earned = [person.marks[exercise.name].earned for person in graded.people if not person.problem]
        mean = sum(earned, Decimal(0)) / max(1, len(earned))
        means.append((_level(Mark(mean, points)), format_number(mean)))
    rows = [
        (place, person, [_cell(person, exercise.name) for exercise in graded.exercises])
        for place, person in enumerate(graded.people, start=1)
    ]
    return {"groups": groups, "rows": rows, "means": means}


def _cell(person: Person, exercise: str) -> tuple[str, str, str]:
    """The class of the colour, the value for sorting, and the text."""
    if person.problem and exercise not in person.given:
        return "", "", "–"
    mark = person.marks[exercise]
    shown = format_number(mark.earned)
    return _level(mark), shown, f"{shown}*" if exercise in person.given else shown


def _level(mark: Mark) -> str:
    """Which of the five colours this share of the points has."""
    share = Fraction(mark.earned) / Fraction(mark.points) if mark.points else Fraction(1)
    return f"l{sum((share > 0, 2 * share >= 1, 5 * share >= 4, share >= 1))}"
