"""Commands for one exercise: test it at each save, show a hint, compare it with the reference, open it."""

from __future__ import annotations

import difflib
import os
import sys
from pathlib import Path
from typing import Annotated

from grader.cli.arguments import AnyName, RequiredExercise, named, named_exercise, option
from grader.console.editor import editor_for
from grader.console.output import make_console, print_error, print_wrapped
from grader.course.practice import has_waiting_first_try
from grader.course.progress import reveal_hint, shown_hints
from grader.course.source import SourceProblem, definition, read_source
from grader.course.status import all_passed, current_scores, exercise_of, is_passed, locate, read_course
from grader.course.stubs import BEGIN, END
from grader.course.syllabus import EXERCISES, SOLUTIONS, Exercise, is_handout
from rich.text import Text


def watch(name: AnyName = None) -> int:
    """Test the function that you changed, each time you save.

    With the name of an exercise, it tests only that exercise."""
    found = named(name) if name else None
    exercise = exercise_of(found)
    if exercise is None:
        print_wrapped(make_console(), f"{all_passed()} To watch one anyway: headway watch NAME")
        return 0
    from grader.watch.loop import watch as run_watch

    return run_watch(
        exercise,
        sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb",
        isinstance(found, Exercise),
    )


def hint(
    name: AnyName = None,
    level: Annotated[
        int | None, option("Show hint N: 1 is a question, 2 the idea, 3 how to write it.", min=1, max=3, metavar="N")
    ] = None,
    again: Annotated[bool, option("Show the hints that you have seen, and no new one.", "--again")] = False,
) -> int:
    """Show the next hint; each says more than the one before."""
    found = read_course().find_all(name or ())
    if name and len(found) == 2 and isinstance(found[0], Exercise) and name[-1] in ("1", "2", "3"):
        name, level = name[:-1], level or int(name[-1])  # `headway hint softmax 2`
    console, exercise = make_console(), exercise_of(named(name) if name else None)
    if exercise is None:
        console.print(f"{all_passed()} `headway hint NAME` still shows the hints of one.")
        return 0
    if has_waiting_first_try(exercise):
        advice = f"`headway again {exercise.name}` tests what you have written"
        print_wrapped(console, f"You write {exercise.name} once more: try it first without hints; {advice}.")
        return 1
    if not exercise.hints:
        console.print(f"{exercise.name} has no hints.")
        return 0
    hints = shown_hints(exercise) if again else [one] if (one := reveal_hint(exercise, level)) else []
    for shown in hints:
        console.print(Text(shown.title, style="bold"))
        print_wrapped(console, shown.text)
        if shown.problem:
            print_error(shown.problem)
    if not hints:
        console.print(f"You have not seen a hint of {exercise.name} yet.")
    if hints and hints[-1].is_last:
        console.print(Text("This is the last hint.", style="dim"))
    else:
        console.print(Text(f"For the {'next' if hints else 'first'} hint: headway hint {exercise.name}", style="dim"))
    if not again and hints[-1].number > 1:
        print_wrapped(console, f"To see the earlier ones again: headway hint {exercise.name} --again", style="dim")
    return 0


def diff(
    name: RequiredExercise,
    peek: Annotated[bool, option("Show the reference although your code does not pass yet.", "--peek")] = False,
) -> int:
    """Compare your code with the reference, after yours passes."""
    exercise, console = named_exercise(name), make_console()
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
    found = named(name) if name else exercise_of(None)
    if found is None:
        make_console().print(f"{all_passed()} To open one: headway open NAME")
        return 0
    location = locate(found)
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
