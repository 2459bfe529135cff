"""Writes report.html, a single page about one graded class. Equal classes give equal bytes."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from statistics import median
from typing import Any

from grader.classroom import sanitize
from grader.classroom.judging.marks import GradedClass, Mark, Person
from grader.classroom.term.course import Course
from grader.classroom.term.roster import NO_ROSTER, Roster, RosterPerson
from grader.counts import format_count
from grader.course.syllabus import Exercise, UnknownName, load_syllabus
from grader.files import write_whole
from grader.runner.run_page import MAX_ALSO_FAILED
from grader.verdict.results import Diagnosis, ExerciseResult, TestResult, replaced_sentences

REPORT_NAME = "report.html"
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


def write_report(graded: GradedClass, folder: Path, context: ReportContext = NO_CONTEXT) -> Path:
    """Write report.html into `folder`. ReportProblem if Jinja is missing, OSError if the file cannot be written."""
    write_whole(folder / REPORT_NAME, render_report(graded, context), private=True)
    return folder / REPORT_NAME


def render_report(graded: GradedClass, context: ReportContext = NO_CONTEXT) -> str:
    everyone = list(enumerate(graded.people, start=1))
    done = [(place, person) for place, person in everyone if not person.problem]
    people = [person for _, person in done]
    tallies, mistakes = tally_exercises(graded, people), tally_misconceptions(done)
    roster = context.roster
    owners = [(place, person, roster.find(person.name)) for place, person in everyone if not person.missing]
    known = {who for _, _, who in owners}
    in_full = max(2, FAILURES_IN_FULL // max(1, len(everyone)))
    return render_template(
        "report",
        graded=graded,
        context=context,
        test_title=_format_title,
        first_sentence=first_sentence,
        replaced_sentences=replaced_sentences,
        most_also=MAX_ALSO_FAILED,
        newest=_find_newest(graded, context),
        many=len(people),
        spread=measure_distribution(people),
        tallies=[one for one in tallies if one.started],
        untouched=[one.exercise.name for one in tallies if not one.started],
        chapters=list(dict.fromkeys(exercise.chapter for exercise in graded.exercises)),
        mistakes=mistakes,
        one_case="submission" if len({person.digest for person in people}) < len(people) else "person",
        started={one.exercise.name: one.started for one in tallies},
        tests=tally_unexplained(done),
        refused=[(place, person) for place, person in everyone if person.problem and not person.missing],
        broken=[(one, module, one[1].broken[module]) for one in done for module in sorted(one[1].broken)],
        shortcuts=[(one, result) for one in done for result in one[1].results if result.forbidden],
        late=sum(bool(person.late) for person in people),
        untimed=[(place, person) for place, person in done if person.is_untimed],
        at_risk=find_at_risk(done, graded.exercises),
        search=[_search_words(roster.find(person.name)) for person in graded.people],
        missing=[who for who in roster.people if who not in known],
        strangers=[(place, person) for place, person, who in owners if who is None and roster.people],
        map=_make_heatmap(graded),
        share=compute_share,
        narrow=NARROW_COLUMNS,
        shown=[_make_section(place, person, graded, in_full) for place, person in everyone],
        versions=", ".join(f"{PRODUCTS.get(name, name)} {graded.versions[name]}" for name in sorted(graded.versions)),
        at_once=SHOWN_AT_ONCE,
    )


def _make_section(place: int, person: Person, graded: GradedClass, in_full: int) -> dict[str, Any]:
    """A person's section: each exercise without full points, and at most `in_full` failures in full."""
    kinds, exercises = classify_all(person, graded.exercises), graded.exercises
    modules = {module: [one.name for one in exercises if one.module == module] for module in sorted(person.broken)}
    incomplete = {name for name, kind in kinds.items() if kind not in ("passed", "todo")}
    runs = [result for result in person.results if result.exercise.module not in modules]
    return {
        "place": place,
        "person": person,
        "names": {kind: [name for name, own in kinds.items() if own == kind] for kind in KINDS},
        "broken": modules,
        "works": [result for result in runs if result.exercise.name in incomplete],
        "in_full": in_full,
    }


def first_sentence(text: str) -> tuple[str, str]:
    """The first sentence of a text, and the rest."""
    first, *rest = re.split(r"(?<=[.!?]) (?=[A-Z])", text, maxsplit=1)
    return first, rest[0] if rest else ""


def _format_title(test: TestResult) -> str:
    return f"{test.outcome.upper()} {plain_name(test.name)}"


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


# ---- counting results: who struggles with which exercise, and which misconceptions occur


KINDS = ("passed", "partly", "failed", "error", "consequence", "todo")
STRUGGLING = ("partly", "failed", "error")
NumberedPerson = tuple[int, Person]  # a person's number in the class, used for links, and the person


@dataclass(frozen=True)
class PointDistribution:
    bins: dict[str, int]  # how many people have each tenth of the points, or full points
    lowest: Decimal
    median: Decimal
    highest: Decimal
    mean: Decimal


@dataclass
class ExerciseTally:
    """The number of people with each kind of result for one exercise."""

    exercise: Exercise
    kinds: Counter[str] = field(default_factory=Counter)

    @property
    def struggling(self) -> int:
        """The number of people who started it and did not get full points, for a reason in this exercise."""
        return sum(self.kinds[kind] for kind in STRUGGLING)

    @property
    def started(self) -> int:
        return self.struggling + self.kinds["passed"] + self.kinds["consequence"]


@dataclass
class MistakeTally:
    """What is wrong with one exercise, and everybody of whom that is so."""

    exercise: Exercise
    who: list[NumberedPerson] = field(default_factory=list)

    @property
    def submissions(self) -> int:
        """How many different submissions these people have: the members of a group have one."""
        return len({person.digest for _, person in self.who})

    @property
    def is_single(self) -> bool:
        return self.submissions == 1


@dataclass
class MisconceptionTally(MistakeTally):
    """One known mistake."""

    diagnosis: Diagnosis = field(default_factory=lambda: Diagnosis("", "", ""))
    example: TestResult | None = None


@dataclass
class UnexplainedTally(MistakeTally):
    """Failures in which no known mistake was recognised."""

    tests: Counter[tuple[str, str]] = field(default_factory=Counter)  # (name, promise) -> number of people


def classify(result: ExerciseResult | None, is_broken: bool = False) -> str:
    """Return the kind of a result, one of KINDS.

    passed; partly (some of the points); failed (none); error (it did not run to its end); todo (not started);
    consequence (the chapter does not import).
    """
    if is_broken:
        return "consequence"
    if result is None or not result.tests:
        return "todo"
    if result.outcome == "passed":
        return "passed"
    if result.earned > 0:
        return "partly"
    return {"todo": "todo", "failed": "failed"}.get(result.outcome, "error")


def classify_all(person: Person, exercises: Iterable[Exercise]) -> dict[str, str]:
    """The kind of the result of each exercise."""
    results = {result.exercise.name: result for result in person.results}
    return {one.name: classify(results.get(one.name), one.module in person.broken) for one in exercises}


def measure_distribution(people: Sequence[Person]) -> PointDistribution | None:
    """The distribution of the totals of graded people; None if there are none."""
    if not people:
        return None
    totals = sorted(person.total.earned for person in people)
    tenths = [int(10 * person.total.earned / person.total.points) if person.total.points else 0 for person in people]
    counts = Counter(min(10, max(0, tenth)) for tenth in tenths)
    labels = [f"{10 * tenth}–{10 * tenth + 9}" for tenth in range(10)] + ["100"]
    bins = {label: counts[tenth] for tenth, label in enumerate(labels)}
    return PointDistribution(bins, totals[0], median(totals), totals[-1], sum(totals, Decimal(0)) / len(totals))


def tally_exercises(graded: GradedClass, people: Sequence[Person]) -> list[ExerciseTally]:
    """All exercises, sorted by the number of people who struggle, largest first."""
    tallies = {exercise.name: ExerciseTally(exercise) for exercise in graded.exercises}
    for person in people:
        for name, kind in classify_all(person, graded.exercises).items():
            tallies[name].kinds[kind] += 1
    return sorted(tallies.values(), key=lambda tally: (-tally.struggling, -tally.kinds["todo"]))


def tally_misconceptions(people: Iterable[NumberedPerson]) -> list[MisconceptionTally]:
    """Every known mistake of this class, the most frequent first."""
    found: dict[tuple[str, str], MisconceptionTally] = {}
    for place, person in people:
        for result in person.results:
            for mistake in result.diagnosis.mistakes if result.diagnosis else ():
                new = MisconceptionTally(result.exercise, diagnosis=mistake)
                one = found.setdefault((result.exercise.name, mistake.id), new)
                one.who.append((place, person))
                one.example = one.example or next((test for test in result.failures if test.details), None)
    order = sorted(found.values(), key=lambda one: (one.exercise.module, one.exercise.name, one.diagnosis.id))
    return sorted(order, key=lambda one: (-one.submissions, -len(one.who)))


def tally_unexplained(people: Iterable[NumberedPerson]) -> list[UnexplainedTally]:
    """Exercises with failures that no diagnosis, shortcut or broken chapter explains.

    Those of most people come first.
    """
    found: dict[str, UnexplainedTally] = {}
    for place, person in people:
        for result in person.results:
            is_explained = result.diagnosis or result.forbidden
            if result.failures and not is_explained and result.exercise.module not in person.broken:
                one = found.setdefault(result.exercise.name, UnexplainedTally(result.exercise))
                one.who.append((place, person))
                names = dict.fromkeys((plain_name(test.name), test.promise) for test in result.failures)
                one.tests.update(list(names))
    return sorted(found.values(), key=lambda one: (-len(one.who), one.exercise.module, one.exercise.name))


def compute_share(person: Person) -> Fraction:
    """The share of the points that this person earned, from 0 to 1, before the deduction for lateness."""
    points = sum(Fraction(mark.points) for mark in person.marks.values())
    return sum(Fraction(mark.earned) for mark in person.marks.values()) / points if points else Fraction(0)


def find_at_risk(
    people: Iterable[NumberedPerson], exercises: Sequence[Exercise]
) -> list[tuple[int, Person, Fraction, int]]:
    """Who has less than half of the points, or started fewer than half of the exercises: with both numbers.

    Those with the fewest points come first.
    """
    found = []
    for place, person in people:
        kinds = [*classify_all(person, exercises).values()]
        share, started = compute_share(person), len(kinds) - kinds.count("todo")
        if 2 * share < 1 or 2 * started < len(kinds):
            found.append((place, person, share, started))
    return sorted(found, key=lambda one: one[2:])


def plain_name(test: str) -> str:
    return test.partition("[")[0]


# ---- a page that contains its style and script and fetches nothing; `headway similarity` writes one, too
#
# The page's content security policy allows only this style and this script, and no request: whatever a learner's text
# contains, it stays text.


PAGES = Path(__file__).with_name("pages")
MAX_TEXT_LENGTH = 4000  # characters


class ReportProblem(RuntimeError):
    """The report cannot be written; the message says what to do."""


def render_template(name: str, **values: Any) -> str:
    """The page pages/NAME.html with these values, shared.css and shared.js, NAME.css and perhaps NAME.js."""
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError:
        way = "pip install -c constraints.txt -e '.[reports]'"
        raise ReportProblem(f"the class report needs Jinja, which is not installed: {way}") from None
    environment = Environment(
        loader=FileSystemLoader(PAGES), autoescape=True, finalize=_finalize, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {"number": format_number, "percent": _percent, "date": _date}
    environment.filters |= {"chapter": format_chapter, "breakable": _breakable, "code": _code}
    style, script = (_resource(f"shared{suffix}") + _resource(f"{name}{suffix}") for suffix in (".css", ".js"))
    sources = f"style-src {_csp_hash(style)}; script-src {_csp_hash(script)}"
    policy = f"default-src 'none'; {sources}; base-uri 'none'; form-action 'none'"
    environment.globals |= {"count": format_count, **values}  # macros in other files see them, too
    return environment.get_template(f"{name}.html").render(style=style, script=script, policy=policy)


def _finalize(value: Any) -> Any:
    """Sanitize every text before the template escapes it; values that are already markup come from the page itself."""
    is_text = isinstance(value, str) and not hasattr(value, "__html__")
    return sanitize.text(value, MAX_TEXT_LENGTH) if is_text else value


def format_chapter(name: str) -> str:
    """ch03 as "3 Attention", with a no-break space."""
    try:
        chapter = load_syllabus().chapter(name)
    except UnknownName:
        return name
    return f"{chapter.number}\u00a0{chapter.title}"


def _breakable(name: str) -> Any:
    """A name in code that may be broken into lines after each underscore."""
    from markupsafe import Markup, escape

    return Markup(escape(sanitize.line(name)).replace("_", Markup("_<wbr>")))


def _code(sentence: str) -> Any:
    """A sentence in which backticks enclose code."""
    from markupsafe import Markup, escape

    return Markup(re.sub("`([^`\n]+)`", r"<code>\1</code>", str(escape(sanitize.text(sentence, MAX_TEXT_LENGTH)))))


def _percent(part: Any, whole: Any = 1) -> str:
    return f"{100 * float(part) / float(whole):.0f}" if whole else "0"


def _date(iso: str) -> str:
    """2026-11-20T18:04:00+01:00 as "2026-11-20 at 18:04, UTC+01:00"; other texts unchanged."""
    try:
        return datetime.fromisoformat(iso).strftime("%Y-%m-%d at %H:%M, %Z").rstrip(", ")
    except ValueError:
        return iso


def _resource(name: str) -> Any:
    from markupsafe import Markup

    path = PAGES / name
    return Markup(path.read_text(encoding="utf-8") if path.exists() else "")


def _csp_hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def format_number(value: Decimal) -> str:
    """At most two decimal places: 12.50 as 12.5 and 12.00 as 12."""
    text = f"{value:.2f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
