"""The learner's editor, and the command that opens a file in it at a line."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from grader.course.status import Location

_GOTO = ("code", "code-insiders", "codium", "cursor", "windsurf")
_PLUS = tuple("vi vim nvim gvim nano pico emacs emacsclient kak micro joe mg gedit ed".split())
_COLON = ("subl", "zed", "hx", "helix")
WINDOWED = (*_GOTO, "subl", "zed", "gedit", "kate", "mate", "notepad", "gvim", "pycharm", "charm")


@dataclass(frozen=True)
class Editor:
    """The learner's editor, and the command that opens one location in it."""

    command: list[str]
    windowed: bool  # it has its own window, and does not use the terminal

    def open(self, wait: bool = True) -> str | None:
        """Open the editor, and with `wait` return when it is closed. Returns a sentence if that fails."""
        name, program = self.command[0], shutil.which(self.command[0])
        if program is None:
            return f"your editor {name!r} (from $VISUAL or $EDITOR) was not found"
        try:
            if not wait:
                null, command = subprocess.DEVNULL, [program, *self.command[1:]]
                subprocess.Popen(command, start_new_session=True, stdin=null, stdout=null, stderr=null)
                return None
            status = subprocess.call([program, *self.command[1:]])
        except OSError as error:
            return f"your editor {name!r} did not start: {(error.strerror or str(error)).lower()}"
        return f"{name} ended with status {status}" if status else None


def editor_for(location: Location) -> Editor | None:
    """The editor in $VISUAL or $EDITOR, or VS Code if it is installed."""
    editor = _editor()
    return Editor(editor_command(editor, location), _program(editor) in WINDOWED) if editor else None


def editor_command(editor: list[str], location: Location) -> list[str]:
    """The command line that opens `location` in this editor."""
    program, file = _program(editor), str(location.file)
    if program in _GOTO:
        return [*editor, "-g", f"{file}:{location.line}"]
    if program in _PLUS:
        return [*editor, f"+{location.line}", file]
    if program in _COLON:
        return [*editor, f"{file}:{location.line}"]
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
