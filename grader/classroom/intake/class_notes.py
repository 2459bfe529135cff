"""Sentences for the instructor about a whole class: submissions without a time, and what `--map` could say."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from grader.classroom.intake.options import ReadOptions
from grader.classroom.intake.submissions import LATE_MARK, NO_LATE_MARK, UNTRUSTED, Submission
from grader.classroom.sanitize import shorten

CANVAS = (
    "Canvas gives no times: submissions that it marks as late count as late by the shortest delay, "
    "and the others as on time"
)


def describe_unknown_times(submissions: Sequence[Submission]) -> list[str]:
    """Sentences on submissions whose time is unknown: they count as on time, or as late by the shortest delay."""
    kinds: dict[str, list[str]] = {}
    for one in submissions:
        if one.submitted is None and not one.problem:
            kinds.setdefault(one.time_from, []).append(one.name)
    sentences = [CANVAS] if kinds.keys() & {LATE_MARK, NO_LATE_MARK} else []
    if names := kinds.get(""):
        sentences.append(_describe_on_time(names, len(submissions)))
    if names := kinds.get(UNTRUSTED):
        sentences.append(
            f"{_describe_on_time(names, len(submissions))}. The files have dates, but copying and unpacking change "
            "them; --trust-file-dates uses them anyway. "
            "For reliable times, grade a table with the columns name,path,submitted"
        )
    return sentences


def _describe_on_time(names: Sequence[str], total: int) -> str:
    counts = "is unknown, so it counts" if len(names) == 1 < total else "are unknown, so they count"
    return f"{describe_times_of(names, total)} {counts} as on time"


def describe_times_of(names: Sequence[str], total: int) -> str:
    """The subject of a sentence about these people of a class: "the time of NAME's submission"."""
    if len(names) == 1 < total:
        return f"the time of {shorten(names[0])}'s submission"
    return f"the times of {'all' if len(names) == total else len(names)} submissions"


def describe_maps(options: ReadOptions, submissions: Sequence[Submission]) -> list[str]:
    """Sentences on names in `--map` that fit no file, and on files whose chapter the option could say."""
    used = {name for submission in submissions for name in submission.mapped}
    unread = {name: submission.name for submission in submissions for name in submission.other_code}
    notes = []
    for name, module in options.chapters.items():
        if name not in used:
            near = difflib.get_close_matches(name, unread, n=1, cutoff=0.5)
            hint = f"; did you mean {shorten(near[0])}?" if near else ""
            notes.append(f"--map {shorten(name)}={module}: no file has this name{hint}")
        elif not options.is_graded(module):
            notes.append(f"--map {shorten(name)}={module}: this chapter is not graded here")
    if unread:
        file, owner = next(iter(unread.items()))
        more = f" (and in {len(unread) - 1} other files)" if len(unread) > 1 else ""
        advice = "if you know its chapter, name it, like --map homework3.py=ch03"
        notes.append(f"no exercise was found in {shorten(file)} of {shorten(owner)}{more}; {advice}")
    return notes
