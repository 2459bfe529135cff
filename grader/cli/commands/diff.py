"""Yours beside the reference, once you have your own."""

from __future__ import annotations

from grader.console.output import make_console, print_wrapped
from grader.course.progress import load_scores
from grader.course.solution_diff import diff_with_reference
from grader.course.status import is_passed, read_course
from grader.course.syllabus import is_handout


def diff(name: str, peek: bool) -> int:
    """Print what differs between the learner's definition and the reference's."""
    exercise = read_course().exercise(name)
    console = make_console()
    if not peek and not is_handout() and not is_passed(exercise, load_scores()):
        print_wrapped(console, f"{name} has not passed yet, and finding your own way is what it is for. `headway hint {name}` helps.")
        print_wrapped(console, f"To look all the same: headway diff {name} --peek")
        return 1
    lines = diff_with_reference(exercise)
    if not lines:
        console.print(f"Your {name} and the reference are the same, line for line.")
    for line in lines:
        console.print(line, soft_wrap=True)
    return 0
