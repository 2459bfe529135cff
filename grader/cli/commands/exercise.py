"""Commands for one exercise: test it at each save, show a hint, compare it with the reference, open it."""

from __future__ import annotations

import difflib
import os
import sys
from pathlib import Path
from typing import Annotated

from grader.cli.arguments import AnyName, RequiredExercise, option
from grader.console.editor import editor_for
from grader.console.output import make_console, print_error, print_wrapped
from grader.course.progress import reveal_hint
from grader.course.source import SourceProblem, definition, read_source
from grader.course.status import current_scores, find_exercise, is_passed, locate, next_step, read_course
from grader.course.stubs import BEGIN, END
from grader.course.syllabus import EXERCISES, SOLUTIONS, Exercise, is_handout
from rich.text import Text


def watch(name: AnyName = None) -> int:
    """Test the function that you changed, each time you save.

    With the name of an exercise, it tests only that exercise."""
    exercise = find_exercise(name)
    if exercise is None:
        print_wrapped(make_console(), "You have passed every exercise. To watch one anyway: headway watch NAME")
        return 0
    from grader.watch.loop import watch as run_watch

    pinned = name is not None and isinstance(read_course().find(name), Exercise)
    return run_watch(exercise, sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb", pinned)


def hint(
    name: AnyName = None,
    level: Annotated[
        int | None, option("Show hint N: 1 is a question, 2 the idea, 3 how to write it.", min=1, max=3, metavar="N")
    ] = None,
) -> int:
    """Show the next hint; each says more than the one before."""
    console, exercise = make_console(), find_exercise(name)
    if exercise is None:
        console.print("You have passed every exercise. `headway hint NAME` still shows the hints of one.")
        return 0
    shown = reveal_hint(exercise, level)
    if shown is None:
        console.print(f"{exercise.name} has no hints.")
        return 0
    console.print(Text(shown.title, style="bold"))
    print_wrapped(console, shown.text)
    more = "This is the last hint." if shown.is_last else f"For the next hint: headway hint {exercise.name}"
    console.print(Text(more, style="dim"))
    if shown.problem:
        print_error(shown.problem)
    return 0


def diff(
    name: RequiredExercise,
    peek: Annotated[bool, option("Show the reference although your code does not pass yet.", "--peek")] = False,
) -> int:
    """Compare your code with the reference, after yours passes."""
    exercise, console = read_course().exercise(name), make_console()
    if is_handout():
        advice = "for help use `headway hint`, or ask your instructor"
        raise SourceProblem(f"a handout does not show the reference; {advice}")
    if not peek and not is_passed(exercise, current_scores()):
        advice = f"try your own way first. For a hint: headway hint {exercise.name}"
        print_wrapped(console, f"You have not passed {exercise.name} yet; {advice}")
        print_wrapped(console, f"To see the reference anyway: headway diff {exercise.name} --peek")
        return 1
    location = locate(exercise)
    if location.problem:
        raise SourceProblem(location.problem)
    own, theirs = (_code_lines(folder / f"{exercise.module}.py", exercise.name) for folder in (EXERCISES, SOLUTIONS))
    if own == theirs:
        console.print(f"Your {exercise.name} is identical to the reference.")
    for line in difflib.unified_diff(own, theirs, f"your code  {location}", "reference", lineterm=""):
        if not line.startswith("@@"):
            style = "bold" if line.startswith(("---", "+++")) else {"-": "red", "+": "green"}.get(line[:1], "")
            console.print(Text(line, style=style), soft_wrap=True)
    return 0


def _code_lines(file: Path, name: str) -> list[str]:
    """A definition without the marks of a solution, and without the TODO comments, which many learners delete."""
    lines = definition(read_source(file), name, file.name).text.splitlines()
    return [line for line in lines if line.strip() not in (BEGIN, END) and not line.strip().startswith("# TODO")]


def open_in_editor(name: AnyName = None) -> int:
    """Open an exercise in your editor, at its line."""
    step = next_step()
    if name is None and step is None:
        make_console().print("You have passed every exercise. To open one: headway open NAME")
        return 0
    location = step.location if step and name is None else locate(read_course().find(name or ""))
    if not location.file.exists():
        raise SourceProblem(location.problem or f"there is no file {location.file}")
    if location.problem:
        print_error(location.problem)
    editor = editor_for(location)
    if editor is None or not (editor.windowed or sys.stdin.isatty() and sys.stdout.isatty()):
        make_console().print(str(location), soft_wrap=True)
        return 0
    problem = editor.open()
    if problem:
        print_error(f"{problem}; the exercise is at {location}")
    return 1 if problem else 0
