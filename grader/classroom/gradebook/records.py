"""What the gradebook's rows mean: results, submissions, and the people with their marks that are made of both."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from grader.classroom import sanitize
from grader.classroom.gradebook.corrections import Override, to_storable
from grader.classroom.intake.file_names import make_safe_name
from grader.classroom.intake.submissions import Submission
from grader.classroom.judging import scoring
from grader.classroom.judging.graded_class import GivenPoints, Mark, Person
from grader.classroom.judging.rules import Lateness, Rules
from grader.course.syllabus import Exercise
from grader.verdict.results import OUTCOMES, join_names
from grader.verdict.summary import Verdict

NOTHING_SUBMITTED = "nothing was submitted"


def to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=True, sort_keys=True)


def parse_names(column: str) -> list[str]:
    found = json.loads(column)
    if type(found) is not list or not all(type(name) is str for name in found):
        raise TypeError("a column of names does not contain a list of texts")
    return found


def format_verdict(verdict: Verdict) -> str:
    """The verdict as JSON, without seconds and what is only about one run: equal contents give equal texts."""
    results = [sanitize.result(result) for result in verdict.results]
    for result in results:
        tests = [replace(test, seconds=0.0) for test in result.tests]
        result.tests, result.written, result.script = tests, "", ""
    return to_json(replace(verdict, results=results, newly_passed=[]).as_data())


def parse_verdict(text: str, exercises: Sequence[Exercise]) -> Verdict:
    """The verdict on these exercises."""
    data, names = json.loads(text), [exercise.name for exercise in exercises]
    found = [entry for entry in data["results"] if entry["exercise"] in names]
    modules = {exercise.module for exercise in exercises}
    broken = {module: words for module, words in data["broken"].items() if module in modules}
    verdict = Verdict.from_data({**data, "results": found, "broken": broken})
    results = sorted(map(sanitize.result, verdict.results), key=lambda one: names.index(one.exercise.name))
    if not all(test.outcome in OUTCOMES for result in results for test in result.tests):
        raise ValueError("unknown outcome")
    texts = {module: sanitize.failure(words) for module, words in verdict.broken.items()}
    return replace(verdict, results=results, broken=texts)


def make_submission_row(one: Submission) -> tuple:
    texts = map(to_storable, (one.slug, one.name, one.digest, one.problem))
    return (*texts, to_json(one.notes), _to_iso(one.submitted), to_json(one.ids))


def parse_submission(
    slug: str, name: str, digest: str, problem: str, notes: str, submitted: str, _ids: str
) -> Submission:
    """A submission as the gradebook stores it: without its content."""
    when = datetime.fromisoformat(submitted) if submitted else None
    if when and when.tzinfo is None:
        raise ValueError("a time has no time zone")
    return Submission(name, {}, problem, tuple(parse_names(notes)), when, digest, slug=slug)


def add_missing(people: Sequence[Submission], missing: Iterable[str]) -> list[Submission]:
    """These people and the missing ones of the roster, who have no digest, by name."""
    taken: set[str] = set()
    for person in people:
        make_safe_name(person.slug, taken)  # it is one already; this only reserves it
    new = [Submission(name, {}, NOTHING_SUBMITTED, slug=make_safe_name(name, taken)) for name in missing]
    return sorted([*people, *new], key=sort_key)


def sort_key(person: Submission) -> tuple[str, str, str]:
    return (person.name.casefold(), person.name, person.slug)


def _to_iso(moment: datetime | None) -> str:
    return moment.isoformat() if moment else ""


def make_person(
    person: Submission, found: Verdict | str, exercises: Sequence[Exercise], rules: Rules,
    overrides: Sequence[Override],
) -> Person:  # fmt: skip
    """The person with marks: the verdict's, or those that the instructor gave."""
    problem = person.problem or (found if isinstance(found, str) else "")
    verdict = found if isinstance(found, Verdict) and not problem else Verdict([])
    marks = scoring.compute_marks(verdict.results, exercises, rules.points_of)
    own = [one for one in overrides if one.exercise in marks and one.owner.is_for(person.name, person.slug)]
    given = {
        one.exercise: GivenPoints(one.points, marks[one.exercise].earned, sanitize.line(one.because), one.given[:10])
        for one in own
    }
    marks |= {exercise: Mark(one.points, marks[exercise].points) for exercise, one in given.items()}
    late = Lateness() if problem else rules.compute_lateness(person)
    return Person(
        name=sanitize.line(person.name),
        slug=person.slug,
        digest=person.digest,
        problem=sanitize.line(problem),
        notes=tuple(map(sanitize.line, [*person.notes, *verdict.notes])),
        submitted=_to_iso(rules.find_time(person)),
        is_untimed=late.is_unknown,
        results=tuple(verdict.results),
        broken=dict(verdict.broken),
        marks=marks,
        given=given,
        late=sanitize.line(late.sentence),
        total=scoring.compute_total(marks.values(), late.factor),
        missing=not person.digest,
        waiting=isinstance(found, str) and bool(found) and not person.problem,
    )


def describe_changes(
    seed: int, versions: dict[str, str], names: list[str], old_seed: int, old_versions: dict[str, str], old: list[str]
) -> str:
    """What differs from the last run, and the consequence, as a sentence; "" if nothing differs."""
    now, before = {"seed": str(seed)} | versions, {"seed": str(old_seed)} | old_versions
    differing = [name for name in now if now[name] != before.get(name)]
    if differing:
        changed = [f"{name} ({before.get(name, 'unknown')}, now {now[name]})" for name in differing]
        consequence = "Earlier results do not count any more, so everything is graded now"
        return f"Changed since the last run: {join_names(changed)}. {consequence}."
    if more := [name for name in names if name not in old]:
        shown = join_names(more if len(more) <= 4 else [*more[:3], f"{len(more) - 3} more"])
        return f"New in this run: {shown}. Submissions without results for these exercises are graded now."
    return ""
