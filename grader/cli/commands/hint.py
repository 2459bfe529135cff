"""Hints: a question, the idea, nearly the line; the next one each time."""

from __future__ import annotations

from grader.console.output import make_console, print_error, print_wrapped
from grader.course.hints import reveal_hint
from grader.course.status import next_step, read_course
from rich.text import Text


def hint(name: str | None, level: int | None) -> int:
    """Show one hint of an exercise (of the next one, where none is named)."""
    course = read_course()
    if name is None:
        step = next_step()
        if step is None:
            make_console().print("Everything has been passed; `headway hint NAME` still shows the hints of an exercise.")
            return 0
        exercise = step.exercise
    else:
        exercise = course.exercise(name)
    shown = reveal_hint(exercise, level)
    if shown is None:
        make_console().print(f"{exercise.name} has no hints.")
        return 0
    console = make_console()
    console.print(Text(shown.title, style="bold"))
    print_wrapped(console, shown.text)
    more = "That is the last one." if shown.is_last else f"The next one says more: headway hint {exercise.name}"
    console.print(Text(more, style="dim"))
    if shown.problem:
        print_error(shown.problem)
    return 0
