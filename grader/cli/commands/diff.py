"""Yours beside the reference, once you have your own."""

from __future__ import annotations

from grader.console.page import page, say
from grader.course.progress import load
from grader.course.solution_diff import difference
from grader.course.status import passed, read_course
from grader.course.syllabus import is_handout


def diff(name: str, peek: bool) -> int:
    """Print what differs between the learner's definition and the reference's."""
    exercise = read_course().exercise(name)
    console = page()
    if not peek and not is_handout() and not passed(exercise, load()):
        say(console, f"{name} has not passed yet, and finding your own way is what it is for. `headway hint {name}` helps.")
        say(console, f"To look all the same: headway diff {name} --peek")
        return 1
    lines = difference(exercise)
    if not lines:
        console.print(f"Your {name} and the reference are the same, line for line.")
    for line in lines:
        console.print(line, soft_wrap=True)
    return 0
