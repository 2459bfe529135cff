"""Tests an exercise each time its file is saved."""

from __future__ import annotations

import os
import sys

from grader.console.output import make_console, print_wrapped
from grader.course.status import first_unpassed, next_step, read_course
from grader.course.syllabus import Chapter, Exercise


def watch(name: str | None) -> int:
    """Watch the next exercise, and then whichever function the learner changes, until they quit. An exercise that is named is the only one."""
    exercise, pinned = _chosen(name)
    if exercise is None:
        print_wrapped(make_console(), "You have passed every exercise. To watch one anyway: headway watch NAME")
        return 0
    from grader.watch.loop import watch as run_watch

    return run_watch(exercise, sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb", pinned)


def _chosen(name: str | None) -> tuple[Exercise | None, bool]:
    """The exercise to begin with, and whether to stay there whatever is saved."""
    course = read_course()
    if name is None:
        step = next_step()
        return (step.exercise if step else None), False
    found = course.find(name)
    return (first_unpassed(found), False) if isinstance(found, Chapter) else (found, True)
