"""Shows how the learner's code differs from the reference."""

from __future__ import annotations

from grader.console.output import make_console, print_wrapped
from grader.course.solution_diff import diff_with_reference
from grader.course.status import current_scores, is_passed, read_course
from grader.course.syllabus import is_handout


def diff(name: str, peek: bool) -> int:
    """Print what differs between the learner's definition and the reference's."""
    exercise = read_course().exercise(name)
    console = make_console()
    if not peek and not is_handout() and not is_passed(exercise, current_scores()):
        print_wrapped(console, f"You have not passed {exercise.name} yet; try your own way first. For a hint: headway hint {exercise.name}")
        print_wrapped(console, f"To see the reference anyway: headway diff {exercise.name} --peek")
        return 1
    lines = diff_with_reference(exercise)
    if not lines:
        console.print(f"Your {exercise.name} is identical to the reference.")
    for line in lines:
        console.print(line, soft_wrap=True)
    return 0
