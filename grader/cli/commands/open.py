"""Opens an exercise in the learner's editor, at its line."""

from __future__ import annotations

import sys

from grader.console.editor import editor_for
from grader.console.output import make_console, print_error
from grader.course.source import SourceProblem
from grader.course.status import locate, next_step, read_course


def open_in_editor(name: str | None) -> int:
    """Open the exercise (or chapter, or what is next) in $VISUAL, $EDITOR or VS Code; without an editor, print `file:line`."""
    course = read_course()
    if name is not None:
        location = locate(course.find(name))
    elif (step := next_step()) is not None:
        location = step.location
    else:
        make_console().print("You have passed every exercise. To open one: headway open NAME")
        return 0
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
