"""Runs commands of the kit as child processes, with fixed arguments and one at a time."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import dataclass

from grader.course.syllabus import ROOT
from grader.files import UserProblem

COMMANDS = {
    "status": ("status",),
    "next": ("next",),
    "check": ("check", "--worker"),
    "hint": ("hint",),
    "show": ("show", "--yours", "--worker"),
}
START = (sys.executable, "-P", "-m", "grader.cli")
UNUSABLE = 2  # the exit status of a command that could not do what it was asked for

_one_at_a_time = threading.Lock()  # two commands at once could lose a line of progress.txt


class CommandFailed(UserProblem):
    """A command did not do what it was asked for; the message is its sentence."""


@dataclass(frozen=True)
class Printed:
    text: str
    passed: bool


def run_command(name: str, *names: str) -> Printed:
    """What a command of the kit prints; CommandFailed, with its sentence, if it prints only that."""
    if any("\0" in each for each in names):  # no process can get such an argument
        raise CommandFailed("the name contains a null byte; `headway list` lists the names")
    environment = os.environ | {"PYTHONIOENCODING": "utf-8", "COLUMNS": "80", "NO_COLOR": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    with _one_at_a_time:
        done = subprocess.run(
            [*START, *COMMANDS[name], "--", *names],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
        )
    text, mark = done.stdout.strip("\n"), "headway: "  # other lines of the errors may be a traceback, with code
    problem = "\n".join(line.removeprefix(mark) for line in done.stderr.splitlines() if line.startswith(mark))
    if done.returncode and (done.returncode == UNUSABLE or not text):
        raise CommandFailed(problem or text or f"`headway {name}` has ended; `headway doctor` may find the reason")
    return Printed("\n\n".join(filter(None, [text, problem])), done.returncode == 0)
