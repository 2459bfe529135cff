"""Prints the next hint of an exercise: a question, then the idea, then how to write it."""

from __future__ import annotations

from grader.console.output import make_console, print_error, print_wrapped
from grader.course.hints import reveal_hint
from grader.course.status import first_unpassed, next_step, read_course
from grader.course.syllabus import Chapter
from rich.text import Text


def hint(name: str | None, level: int | None) -> int:
    """Print one hint of an exercise; of a chapter, or without a name, of the next exercise."""
    course = read_course()
    if name is None:
        step = next_step()
        if step is None:
            make_console().print("You have passed every exercise. `headway hint NAME` still shows the hints of one.")
            return 0
        exercise = step.exercise
    else:
        found = course.find(name)
        exercise = first_unpassed(found) if isinstance(found, Chapter) else found
    shown = reveal_hint(exercise, level)
    if shown is None:
        make_console().print(f"{exercise.name} has no hints.")
        return 0
    console = make_console()
    console.print(Text(shown.title, style="bold"))
    print_wrapped(console, shown.text)
    more = "This is the last hint." if shown.is_last else f"For the next hint: headway hint {exercise.name}"
    console.print(Text(more, style="dim"))
    if shown.problem:
        print_error(shown.problem)
    return 0
