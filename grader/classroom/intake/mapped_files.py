"""What an instructor should know about `--map`: names that fit no file, and files whose chapter the option could say."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from grader.classroom.intake.options import ReadOptions
from grader.classroom.intake.submissions import Submission
from grader.classroom.sanitize import shorten


def describe_maps(options: ReadOptions, submissions: Sequence[Submission]) -> list[str]:
    used = {name for submission in submissions for name in submission.mapped}
    unread = {name: submission.name for submission in submissions for name in submission.other_code}
    notes = []
    for name, module in options.chapters.items():
        if name not in used:
            near = difflib.get_close_matches(name, unread, n=1, cutoff=0.5)
            notes.append(f"--map {shorten(name)}={module}: no file has this name" + (f"; did you mean {shorten(near[0])}?" if near else ""))
        elif not options.is_graded(module):
            notes.append(f"--map {shorten(name)}={module}: this chapter is not graded here")
    if unread:
        file, owner = next(iter(unread.items()))
        more = f" (and in {len(unread) - 1} other files)" if len(unread) > 1 else ""
        notes.append(f"no exercise was found in {shorten(file)} of {shorten(owner)}{more}; if you know its chapter, name it, like --map homework3.py=ch03")
    return notes
