"""The people of a gradebook: their rows, and the names that exports show."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from grader.classroom import sanitize
from grader.classroom.gradebook import columns
from grader.classroom.gradebook.corrections import Override, Remark
from grader.classroom.intake.file_names import make_safe_name
from grader.classroom.intake.submissions import LATE_MARK, Submission
from grader.classroom.judging import scoring
from grader.classroom.judging.graded_class import GivenPoints, Mark, Person
from grader.classroom.judging.rules import Lateness, Rules
from grader.course.syllabus import Exercise
from grader.verdict.summary import Verdict

NOTHING = "nothing was submitted"


@dataclass(frozen=True)
class StoredSubmission:
    """One person's submission as the gradebook stores it: without its content, with the time that decides whether it was late."""

    slug: str
    name: str
    digest: str
    problem: str
    notes: tuple[str, ...]
    submitted: datetime | None
    zone_known: bool
    missing: bool = False
    is_marked_late: bool = False


def parse_submission(texts: Sequence[str], zone_known: bool) -> StoredSubmission:
    slug, name, digest, problem, notes, submitted = texts
    is_marked_late = submitted == LATE_MARK
    when = datetime.fromisoformat(submitted) if submitted and not is_marked_late else None
    if when and when.tzinfo is None:
        raise ValueError("a time has no time zone")
    return StoredSubmission(slug, name, digest, problem, tuple(columns.parse_names(notes)), when, zone_known, is_marked_late=is_marked_late)


def add_missing(people: Sequence[StoredSubmission], missing: Iterable[str]) -> list[StoredSubmission]:
    """These people and the missing ones of the roster, by name."""
    taken: set[str] = set()
    for person in people:
        make_safe_name(person.slug, taken)  # it is one already; this only reserves it
    more = [StoredSubmission(make_safe_name(name, taken), name, "", NOTHING, (), None, True, missing=True) for name in missing]
    return sorted([*people, *more], key=sort_key)


def distinct_names(people: Sequence[StoredSubmission]) -> dict[str, str]:
    """Each person's displayed name, by file name. Different names that look alike when displayed get their file name appended."""
    shown = {person.slug: sanitize.line(person.name) for person in people}
    alike: dict[str, set[str]] = {}
    for person in people:
        alike.setdefault(_visible_form(shown[person.slug]), set()).add(person.name)
    return {slug: f"{name} ({slug})" if len(alike[_visible_form(name)]) > 1 else name for slug, name in shown.items()}


def _visible_form(name: str) -> str:
    """A form that is equal for names that look alike: composed or decomposed letters, with or without invisible characters."""
    return "".join(character for character in unicodedata.normalize("NFKC", name) if unicodedata.category(character) != "Cf")


def sort_key(person: Submission | StoredSubmission) -> tuple[str, str, str]:
    return (person.name.casefold(), person.name, person.slug)


def to_iso(moment: datetime | None) -> str:
    return moment.isoformat() if moment else ""


def store_time(submission: Submission) -> str:
    """The time as the gradebook stores it, or the mark of a learning platform that gives no time."""
    return LATE_MARK if submission.is_marked_late else to_iso(submission.submitted)


def make_person(
    person: StoredSubmission, name: str, found: Verdict | str, exercises: Sequence[Exercise], rules: Rules, overrides: Sequence[Override], remarks: Sequence[Remark]
) -> Person:
    """The person with marks: the verdict's, or those that the instructor gave."""
    problem = person.problem or (found if isinstance(found, str) else "")
    verdict = found if isinstance(found, Verdict) and not problem else Verdict([])
    marks = scoring.compute_marks(verdict.results, exercises, rules.points_of)
    given = {
        one.exercise: GivenPoints(one.points, marks[one.exercise].earned, sanitize.line(one.because), one.given[:10])
        for one in overrides if one.exercise in marks and one.owner.is_for(person.name, person.slug)
    }  # fmt: skip
    marks |= {exercise: Mark(one.points, marks[exercise].points) for exercise, one in given.items()}
    late = Lateness() if problem else rules.compute_lateness(person)
    return Person(
        name=name,
        slug=person.slug,
        digest=person.digest,
        problem=sanitize.line(problem),
        notes=tuple(sanitize.line(note) for note in (*person.notes, *verdict.notes, *([] if late.days else filter(None, [late.sentence])))),
        submitted=to_iso(rules.find_time(person)),
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
