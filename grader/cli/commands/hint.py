"""Hints: a question, the idea, nearly the line; the next one each time."""

from __future__ import annotations

from grader.console.page import complain, page, say
from grader.course.hints import take_hint
from grader.course.status import next_step, read_course
from rich.text import Text


def hint(name: str | None, level: int | None) -> int:
    """Show one hint of an exercise (of the next one, where none is named)."""
    course = read_course()
    if name is None:
        step = next_step()
        if step is None:
            page().print("Everything has been passed; `headway hint NAME` still shows the hints of an exercise.")
            return 0
        exercise = step.exercise
    else:
        exercise = course.exercise(name)
    shown = take_hint(exercise, level)
    if shown is None:
        page().print(f"{exercise.name} has no hints.")
        return 0
    console = page()
    console.print(Text(shown.title, style="bold"))
    say(console, shown.text)
    more = "That is the last one." if shown.is_last else f"The next one says more: headway hint {exercise.name}"
    console.print(Text(more, style="dim"))
    if shown.problem:
        complain(shown.problem)
    return 0
