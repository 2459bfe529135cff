"""The learner's editor, and how it is told to open a file at a line."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from grader.course.status import Location

WINDOWED = ("code", "code-insiders", "codium", "cursor", "windsurf", "subl", "zed", "gedit", "kate", "mate", "notepad", "gvim", "pycharm", "charm")
_GOTO = ("code", "code-insiders", "codium", "cursor", "windsurf")
_PLUS = ("vi", "vim", "nvim", "gvim", "nano", "pico", "emacs", "emacsclient", "kak", "micro", "joe", "mg", "gedit", "ed")
_COLON = ("subl", "zed", "hx", "helix")


@dataclass(frozen=True)
class Editor:
    """The learner's editor, and the command that opens one place in it."""

    command: list[str]
    windowed: bool  # it has a window of its own, and leaves the terminal alone

    def open(self, wait: bool = True) -> str | None:
        """Open it, and with `wait` stay until it is closed; a sentence where that went wrong."""
        name, program = self.command[0], shutil.which(self.command[0])
        if program is None:
            return f"your editor {name!r} (from $VISUAL or $EDITOR) is not found"
        try:
            if not wait:
                null = subprocess.DEVNULL
                subprocess.Popen([program, *self.command[1:]], start_new_session=True, stdin=null, stdout=null, stderr=null)
                return None
            status = subprocess.call([program, *self.command[1:]])
        except OSError as error:
            return f"your editor {name!r} does not start: {(error.strerror or str(error)).lower()}"
        return f"{name} ended with status {status}" if status else None


def editor_for(place: Location) -> Editor | None:
    """What $VISUAL or $EDITOR names, or VS Code where it is installed."""
    editor = _editor()
    return Editor(editor_command(editor, place), _program(editor) in WINDOWED) if editor else None


def editor_command(editor: list[str], place: Location) -> list[str]:
    """The command line that opens `place` in this editor."""
    program, file = _program(editor), str(place.file)
    if program in _GOTO:
        return [*editor, "-g", f"{file}:{place.line}"]
    if program in _PLUS:
        return [*editor, f"+{place.line}", file]
    if program in _COLON:
        return [*editor, f"{file}:{place.line}"]
    return [*editor, file]


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
