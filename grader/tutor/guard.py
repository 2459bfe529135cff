"""What the tutor's process may open and start. An audit hook enforces it, and cannot be removed again.

The process reads Python and its packages, the code of the kit and the lessons. It writes no file, and starts only the
commands of commands.py.
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grader.course.syllabus import EXERCISES, ROOT
from grader.files import UserProblem
from grader.tutor.commands import COMMANDS, START

LIBRARY = os.path.dirname(os.__file__)
PYTHON = {os.path.realpath(folder) for folder in (LIBRARY, *site.getsitepackages(), site.getusersitepackages())}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC
# of Python's table of audit events: what changes files, or starts a program in another way than subprocess
REFUSED = {
    "os.chmod", "os.chown", "os.exec", "os.fork", "os.forkpty", "os.link", "os.mkdir", "os.posix_spawn", "os.remove",
    "os.rename", "os.rmdir", "os.setxattr", "os.spawn", "os.startfile", "os.symlink", "os.system", "os.truncate",
    "os.utime", "pty.spawn", "sqlite3.connect",
}  # fmt: skip


class Refused(UserProblem, PermissionError):
    """The tutor's process may not do this."""


def install() -> None:
    """Enforce it from now on, in this process."""
    sys.dont_write_bytecode = True
    sys.addaudithook(_check)


def _check(event: str, arguments: tuple[Any, ...]) -> None:
    if event in REFUSED:
        raise Refused(f"the tutor's process does nothing of this kind: {event}")
    if event == "open" and not isinstance(arguments[0], int):  # a number is a file that is open already
        path, mode, flags = arguments
        if os.fsdecode(path) == os.devnull:
            return
        if (flags or 0) & WRITING or set(mode or "") & set("wax+"):
            raise Refused(f"the tutor's process writes no files: {os.fsdecode(path)}")
        if not may_read(os.path.realpath(path)):
            raise Refused(f"the tutor's process does not read this file: {os.fsdecode(path)}")
    if event == "subprocess.Popen" and not _may_start(arguments[0], arguments[1]):
        raise Refused(f"the tutor's process starts only commands of the kit, not {arguments[1]}")


def may_read(path: str | bytes) -> bool:
    """Whether the process may read this file, whose links are resolved."""
    file = Path(os.fsdecode(path))
    around = max((folder for folder in {*PYTHON, str(ROOT)} if file.is_relative_to(folder)), key=len, default=None)
    if around != str(ROOT):
        return around is not None
    inside = file.relative_to(ROOT)
    if file.parent == EXERCISES:
        return file.suffix == ".md"
    code = inside.parts[:1] == ("grader",) and inside.parts[1] not in ("tests", "quality")
    return code and file.suffix in (".py", ".pyc")


def _may_start(executable: Any, arguments: Sequence[Any]) -> bool:
    """Is it Python with one of the fixed beginnings of a command, and at most one name after it?"""
    began = [[*START, *command, "--"] for command in COMMANDS.values()]
    given = list(arguments) if isinstance(arguments, list | tuple) else []
    fixed = any(given[: len(one)] == one and len(given) <= len(one) + 1 for one in began)
    return fixed and executable in (None, sys.executable)
