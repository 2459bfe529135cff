"""Times that submissions lack: what a learning platform's mark "late" means, and what the instructor should know."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from grader.classroom.intake.submissions import LATE_MARK, UNTRUSTED, Submission
from grader.classroom.sanitize import shorten

LATE_NOTE = "Canvas marks this submission as late but gives no time, so the shortest delay is assumed"
EXTENDED_NOTE = "Canvas marks this submission as late but gives no time; because of the extension it counts as on time"


def apply_late_marks(submissions: Sequence[Submission], due: datetime | None, grace: timedelta, extended: Container[str]) -> list[Submission]:
    """The submissions, with the earliest late time for each that is only marked as late. Canvas does not know of an extension (`extended`) in the rules."""
    return [_apply(submission, due + grace, extended) if due and submission.time_from == LATE_MARK else submission for submission in submissions]


def _apply(submission: Submission, end: datetime, extended: Container[str]) -> Submission:
    if submission.name in extended:
        return replace(submission, notes=(*submission.notes, EXTENDED_NOTE))
    return replace(submission, submitted=end + timedelta(seconds=1), notes=(*submission.notes, LATE_NOTE))


def describe_unknown_times(submissions: Sequence[Submission]) -> list[str]:
    """A sentence for the instructor if submissions count as on time although files have dates."""
    names = [submission.name for submission in submissions if submission.time_from == UNTRUSTED]
    if not names:
        return []
    one = len(names) == 1 < len(submissions)
    return [
        f"{describe_times_of(names, len(submissions))} {'is unknown, so it counts' if one else 'are unknown, so they count'} as on time. "
        "The files have dates, but copying and unpacking change them; --trust-file-dates uses them anyway. "
        "For reliable times, grade a table with the columns name,path,submitted"
    ]


def describe_times_of(names: Sequence[str], total: int) -> str:
    """The subject of a sentence about these people of a class: "the time of NAME's submission", or "the times of ..."."""
    if len(names) == 1 < total:
        return f"the time of {shorten(names[0])}'s submission"
    return f"the times of {'all' if len(names) == total else len(names)} submissions"
