"""Opens an exercise in the learner's editor, at its line."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from grader.commands.page import complain, page
from grader.course import Place, next_step, place_of, read_course
from grader.source import SourceProblem

WINDOWED = ("code", "code-insiders", "codium", "cursor", "windsurf", "subl", "zed", "gedit", "kate", "mate", "notepad", "gvim", "pycharm", "charm")
_GOTO = ("code", "code-insiders", "codium", "cursor", "windsurf")
_PLUS = ("vi", "vim", "nvim", "gvim", "nano", "pico", "emacs", "emacsclient", "kak", "micro", "joe", "mg", "gedit", "ed")
_COLON = ("subl", "zed", "hx", "helix")


def open_in_editor(name: str | None) -> int:
    """Open the exercise (or chapter, or what is next) in $VISUAL, $EDITOR or VS Code; where there is none, print `file:line`."""
    course = read_course()
    if name is not None:
        place = place_of(course.find(name))
    elif (step := next_step()) is not None:
        place = step.place
    else:
        page().print("Everything has been passed; name what to open.")
        return 0
    if not place.file.exists():
        raise SourceProblem(place.problem or f"there is no {place.file}")
    if place.problem:
        complain(place.problem)
    editor = _editor()
    if editor is None or not (_program(editor) in WINDOWED or sys.stdin.isatty() and sys.stdout.isatty()):
        page().print(str(place), soft_wrap=True)
        return 0
    return _run(editor, place)


def editor_command(editor: list[str], place: Place) -> list[str]:
    """The command line that opens `place` in this editor."""
    program, file = _program(editor), str(place.file)
    if program in _GOTO:
        return [*editor, "-g", f"{file}:{place.line}"]
    if program in _PLUS:
        return [*editor, f"+{place.line}", file]
    if program in _COLON:
        return [*editor, f"{file}:{place.line}"]
    return [*editor, file]


def _run(editor: list[str], place: Place) -> int:
    program = shutil.which(editor[0])
    if program is None:
        complain(f"your editor {editor[0]!r} (from $VISUAL or $EDITOR) is not found; the exercise is at {place}")
        return 1
    try:
        status = subprocess.call([program, *editor_command(editor, place)[1:]])
    except OSError as error:
        complain(f"your editor {editor[0]!r} does not start: {(error.strerror or str(error)).lower()}; the exercise is at {place}")
        return 1
    if status:
        complain(f"{editor[0]} ended with status {status}; the exercise is at {place}")
        return 1
    return 0


def _editor() -> list[str] | None:
    for variable in ("VISUAL", "EDITOR"):
        if wanted := os.environ.get(variable, "").strip():
            try:
                return shlex.split(wanted, posix=os.name != "nt") or None
            except ValueError:
                return [wanted]
    return ["code"] if shutil.which("code") else None


def _program(editor: list[str]) -> str:
    return Path(editor[0]).stem.lower() if os.name == "nt" else Path(editor[0]).name
