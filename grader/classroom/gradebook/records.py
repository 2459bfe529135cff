"""What the gradebook's rows mean: results, submissions, and the people with their marks that are made of both."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from sys import intern

from grader.classroom import sanitize
from grader.classroom.gradebook.corrections import Override, Remark, to_storable
from grader.classroom.intake.file_names import make_safe_name
from grader.classroom.intake.submissions import LATE_MARK, Submission
from grader.classroom.judging import scoring
from grader.classroom.judging.graded_class import GivenPoints, Mark, Person
from grader.classroom.judging.rules import Lateness, Rules
from grader.course.syllabus import Exercise
from grader.verdict.results import OUTCOMES, Diagnosis, ExerciseResult, Failure, TestResult, join_names
from grader.verdict.summary import Verdict

NOTHING_SUBMITTED = "nothing was submitted"


def to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=True, sort_keys=True)


def parse_names(column: str) -> list[str]:
    found = json.loads(column)
    if type(found) is not list or not all(type(name) is str for name in found):
        raise TypeError("a column of names does not contain a list of texts")
    return found


def make_result_row(result: ExerciseResult) -> tuple:
    """The row of a result, without empty fields and seconds: measured times would make equal results differ."""
    tests = []
    for test in result.tests:
        details = _without_empty(vars(test.details)) if test.details else None
        tests.append(_without_empty(vars(test) | {"seconds": 0, "details": details}))
    diagnosis, forbidden = to_json(result.diagnosis and asdict(result.diagnosis)), to_json(result.forbidden)
    columns = (to_json(tests), diagnosis, forbidden, int(result.partial), result.missing_weight)
    return (result.exercise.name, result.outcome, *columns)


def _without_empty(values: dict) -> dict:
    return {name: value for name, value in values.items() if value or name == "promise"}


def parse_result(
    exercise: Exercise, tests: str, diagnosis: str, forbidden: str, partial: int, missing_weight: float
) -> ExerciseResult:
    fields = json.loads(diagnosis)
    known = Diagnosis.from_data(fields) if fields else None
    weight = _check_weight(missing_weight)
    parsed = [_parse_test(entry) for entry in json.loads(tests)]
    return sanitize.result(ExerciseResult(exercise, parsed, known, parse_names(forbidden), bool(partial), weight))


def _parse_test(entry: dict) -> TestResult:
    repeated = {name: intern(entry[name]) for name in ("name", "outcome", "promise")}  # by most submissions
    if repeated["outcome"] not in OUTCOMES:
        raise ValueError("unknown outcome")
    details = Failure(**entry["details"]) if "details" in entry else None
    weight = _check_weight(entry.get("weight", 0.0))
    return TestResult(**entry | repeated | {"seconds": 0.0, "details": details, "weight": weight})


def _check_weight(value: float) -> float:
    if type(value) not in (int, float) or not 0 <= value < math.inf:
        raise ValueError("invalid weight")
    return value


@dataclass(frozen=True)
class StoredSubmission:
    """One person's submission as the gradebook stores it: without its content."""

    slug: str
    name: str
    digest: str
    problem: str
    notes: tuple[str, ...]
    submitted: datetime | None
    zone_known: bool
    missing: bool = False
    is_marked_late: bool = False


def make_submission_row(one: Submission) -> tuple:
    """The row of a submission; its time may be the mark of a learning platform that gives no time."""
    time = LATE_MARK if one.is_marked_late else _to_iso(one.submitted)
    texts = map(to_storable, (one.slug, one.name, one.digest, one.problem))
    return (*texts, to_json(one.notes), time, one.zone_known)


def parse_submission(
    slug: str, name: str, digest: str, problem: str, notes: str, submitted: str, zone_known: int
) -> StoredSubmission:
    if not all(type(text) is str for text in (slug, name, digest, problem)):
        raise TypeError("a text column contains another type")
    is_late = submitted == LATE_MARK
    when = datetime.fromisoformat(submitted) if submitted and not is_late else None
    if when and when.tzinfo is None:
        raise ValueError("a time has no time zone")
    found = tuple(parse_names(notes))
    return StoredSubmission(slug, name, digest, problem, found, when, bool(zone_known), is_marked_late=is_late)


def add_missing(people: Sequence[StoredSubmission], missing: Iterable[str]) -> list[StoredSubmission]:
    """These people and the missing ones of the roster, by name."""
    taken: set[str] = set()
    for person in people:
        make_safe_name(person.slug, taken)  # it is one already; this only reserves it

    def make(name: str) -> StoredSubmission:
        return StoredSubmission(make_safe_name(name, taken), name, "", NOTHING_SUBMITTED, (), None, True, missing=True)

    return sorted([*people, *map(make, missing)], key=sort_key)


def sort_key(person: Submission | StoredSubmission) -> tuple[str, str, str]:
    return (person.name.casefold(), person.name, person.slug)


def distinct_names(people: Sequence[StoredSubmission]) -> dict[str, str]:
    """Each person's displayed name, by file name, which is appended to different names that look alike."""
    shown = {person.slug: sanitize.line(person.name) for person in people}
    alike: dict[str, set[str]] = {}
    for person in people:
        alike.setdefault(_visible_form(shown[person.slug]), set()).add(person.name)
    return {slug: f"{name} ({slug})" if len(alike[_visible_form(name)]) > 1 else name for slug, name in shown.items()}


def _visible_form(name: str) -> str:
    """A form that is equal for names that look alike: composed or decomposed letters, invisible characters."""
    return "".join(letter for letter in unicodedata.normalize("NFKC", name) if unicodedata.category(letter) != "Cf")


def _to_iso(moment: datetime | None) -> str:
    return moment.isoformat() if moment else ""


def make_person(
    person: StoredSubmission, name: str, found: Verdict | str, exercises: Sequence[Exercise], rules: Rules,
    overrides: Sequence[Override], remarks: Sequence[Remark],
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
    notes = [*person.notes, *verdict.notes] + ([late.sentence] if late.sentence and not late.days else [])
    return Person(
        name=name,
        slug=person.slug,
        digest=person.digest,
        problem=sanitize.line(problem),
        notes=tuple(map(sanitize.line, notes)),
        submitted=_to_iso(rules.find_time(person)),
        is_untimed=late.is_unknown,
        results=tuple(verdict.results),
        broken=dict(verdict.broken),
        marks=marks,
        given=given,
        remarks=tuple(sanitize.line(one.text) for one in remarks if one.owner.is_for(person.name, person.slug)),
        late=sanitize.line(late.sentence) if late.days else "",
        total=scoring.compute_total(marks.values(), late.factor),
        missing=person.missing,
        waiting=isinstance(found, str) and bool(found) and not person.problem,
    )


def describe_changes(
    seed: int, versions: dict[str, str], names: list[str], old_seed: int, old_versions: dict[str, str], old: list[str]
) -> str:
    """What differs from the last run, and the consequence, as a sentence; "" if nothing differs."""
    changed = [f"the seed ({old_seed}, now {seed})"] if seed != old_seed else []
    for name in sorted(versions.keys() | old_versions.keys()):
        before, now = old_versions.get(name, "unknown"), versions.get(name, "unknown")
        if before != now:
            kit = "the kit (its grader, tests, solutions or syllabus)"
            changed.append(kit if name == "kit" else f"{name} ({before}, now {now})")
    if changed:
        consequence = (
            "Earlier results stay in the gradebook but do not count; "
            "submissions without results for the new settings are graded now."
        )
        return f"Changed since the last run: {join_names(changed)}. {consequence}"
    if more := [name for name in names if name not in old]:
        shown = join_names(more if len(more) <= 4 else [*more[:3], f"{len(more) - 3} more"])
        return f"New in this run: {shown}. Submissions without results for these exercises are graded now."
    return ""
