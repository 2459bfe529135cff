"""Opens an exercise in the learner's editor, at its line."""

from __future__ import annotations

import sys

from grader.console.editor import editor_for
from grader.console.output import make_console, print_error
from grader.course.source import SourceProblem
from grader.course.status import locate, next_step, read_course


def open_in_editor(name: str | None) -> int:
    """Open the exercise (or chapter, or what is next) in $VISUAL, $EDITOR or VS Code; where there is none, print `file:line`."""
    course = read_course()
    if name is not None:
        place = locate(course.find(name))
    elif (step := next_step()) is not None:
        place = step.place
    else:
        make_console().print("Everything has been passed; name what to open.")
        return 0
    if not place.file.exists():
        raise SourceProblem(place.problem or f"there is no {place.file}")
    if place.problem:
        print_error(place.problem)
    editor = editor_for(place)
    if editor is None or not (editor.windowed or sys.stdin.isatty() and sys.stdout.isatty()):
        make_console().print(str(place), soft_wrap=True)
        return 0
    problem = editor.open()
    if problem:
        print_error(f"{problem}; the exercise is at {place}")
    return 1 if problem else 0
