"""What the instructor should know about submissions without a time."""

from __future__ import annotations

from collections.abc import Sequence

from grader.classroom.intake.submissions import LATE_MARK, NO_LATE_MARK, UNTRUSTED, Submission
from grader.classroom.sanitize import shorten

CANVAS = "Canvas gives no times: submissions that it marks as late count as late by the shortest delay, and the others as on time"


def describe_unknown_times(submissions: Sequence[Submission]) -> list[str]:
    """Sentences for the instructor on submissions that count as on time, or as late by the shortest delay, because their time is unknown."""
    kinds: dict[str, list[str]] = {}
    for one in submissions:
        if one.submitted is None and not one.problem:
            kinds.setdefault(one.time_from, []).append(one.name)
    sentences = [CANVAS] if kinds.keys() & {LATE_MARK, NO_LATE_MARK} else []
    if names := kinds.get(""):
        sentences.append(_describe_on_time(names, len(submissions)))
    if names := kinds.get(UNTRUSTED):
        sentences.append(
            f"{_describe_on_time(names, len(submissions))}. The files have dates, but copying and unpacking change them; --trust-file-dates uses them anyway. "
            "For reliable times, grade a table with the columns name,path,submitted"
        )
    return sentences


def _describe_on_time(names: Sequence[str], total: int) -> str:
    one = len(names) == 1 < total
    return f"{describe_times_of(names, total)} {'is unknown, so it counts' if one else 'are unknown, so they count'} as on time"


def describe_times_of(names: Sequence[str], total: int) -> str:
    """The subject of a sentence about these people of a class: "the time of NAME's submission", or "the times of ..."."""
    if len(names) == 1 < total:
        return f"the time of {shorten(names[0])}'s submission"
    return f"the times of {'all' if len(names) == total else len(names)} submissions"
