"""Hints: a question, the idea, nearly the line; the next one each time."""

from __future__ import annotations

from grader.commands.page import complain, page, say
from grader.course import next_step, read_course
from grader.progress import hint_levels, keep_hint_level
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
    if not exercise.hints:
        page().print(f"{exercise.name} has no hints.")
        return 0
    seen, last = hint_levels().get(exercise.name, 0), len(exercise.hints)
    shown = min(level or seen + 1, last)
    console = page()
    console.print(Text(f"{exercise.name}, hint {shown} of {last}", style="bold"))
    say(console, exercise.hints[shown - 1])
    if shown < last:
        console.print(Text(f"The next one says more: headway hint {exercise.name}", style="dim"))
    else:
        console.print(Text("That is the last one.", style="dim"))
    problem = keep_hint_level(exercise.name, shown) if shown > seen else None
    if problem:
        complain(problem)
    return 0
