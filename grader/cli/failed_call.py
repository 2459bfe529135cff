"""Runs the failure of an exercise again: the script that the last failed test left."""

from __future__ import annotations

import importlib
import os
import shlex
import subprocess
import sys
import traceback
from pathlib import Path

from grader.console.output import make_console, print_error, print_wrapped
from grader.course.status import locate, read_course, short_path
from grader.course.syllabus import ROOT, Exercise
from grader.execution.target import NoTarget, resolve
from grader.reproduction.chapters import BrokenRule
from grader.reproduction.files import StoredScript, last_script, stored_script
from grader.reproduction.running import (
    ScriptRun,
    StillRunning,
    error_line,
    flush,
    own_traceback,
    run_script,
    verdict_of,
)
from grader.reproduction.script import chapter_digest
from grader.verdict.comparing import tolerance
from grader.verdict.value_text import first_difference
from torch import Tensor

RIGHT, WRONG, UNUSABLE = 0, 1, 2
CALL_SECONDS = 6.0  # for a call that did not end in the tests
_KIT = f"{ROOT / 'grader'}{os.sep}"


def repeat(wanted: Exercise | None, debug: bool) -> int:
    """Repeat the failed call of an exercise, or the last one; the exit status."""
    stored = stored_script(wanted.name) if wanted else last_script()
    if stored is None:
        whose = f" {wanted.name}" if wanted else ""
        call = f"there is no failed call{' of' if wanted else ''}{whose} to make again"
        print_error(f"{call}; `headway check{whose}` runs the tests")
        return UNUSABLE
    exercise = read_course().exercise(stored.path.stem)
    if not stored.facts.get("folder") and (problem := locate(exercise).problem):
        print_error(problem)
        return UNUSABLE
    console = make_console()
    console.print(short_path(stored.path), style="dim", soft_wrap=True)
    for sentence in _remarks(stored, exercise, debug):
        print_wrapped(console, sentence, style="yellow")
    flush()
    if debug:
        return _debug(stored)
    run = run_script(stored.path, CALL_SECONDS if stored.facts.get("kind") == "time" else None)
    if isinstance(run.error, NoTarget):
        print_error(str(run.error))
        return UNUSABLE
    flush()
    if run.error is not None:
        _print_error(run.error, stored.path)
    verdict = verdict_of(run, stored.facts)
    console.print()
    style = {"right": "green", "wrong": "red"}.get(verdict, "yellow")
    print_wrapped(console, _conclusion(verdict, run, stored, exercise), style=style)
    return RIGHT if verdict == "right" else WRONG


def _remarks(stored: StoredScript, exercise: Exercise, debug: bool) -> list[str]:
    """What differs from the run of the tests."""
    facts, found = stored.facts, []
    try:
        digest = chapter_digest(resolve(facts.get("folder") or None), exercise.module)
    except NoTarget:
        digest = ""  # the script says what is missing
    if digest and facts.get("digest") and digest != facts["digest"]:
        found.append(f"{exercise.module}.py has changed since this test failed; the script runs the code as it is now.")
    if facts.get("worker"):
        found.append("The tests ran this code in a worker process; the script runs it in this process.")
    if facts.get("kind") == "time" and not debug:
        found.append(f"The call did not end in the tests; here it is stopped after {CALL_SECONDS:g} s.")
    return found


def _conclusion(verdict: str, run: ScriptRun, stored: StoredScript, exercise: Exercise) -> str:
    folder, kind = stored.facts.get("folder"), stored.facts.get("kind")
    tests = f"headway check {exercise.name}"
    if folder:
        tests = f"pytest --target {shlex.quote(folder)} --exercise {exercise.name}"
    if verdict == "right":
        raised = kind in ("raised", "rule", "import")
        what = "no longer raises an error" if raised else "now returns the expected value"
        return f"The call {what}. Run {tests} for all tests."
    if isinstance(run.error, StillRunning):
        return f"The call has not ended after {CALL_SECONDS:g} s."
    if isinstance(run.error, BrokenRule):
        return f"The call still breaks a rule: {run.error}."
    if run.error is not None:
        what = "Importing the chapter" if kind == "import" else "The call"
        return f"{what} raises {error_line(run.error)}."
    if verdict == "wrong":
        return f"The result is still wrong{_difference(run)}."
    return f"The result is another one now. Run {tests} to find out whether it is right."


def _difference(run: ScriptRun) -> str:
    """Where two tensors first differ, and how many of their values; empty for anything else."""
    got, expected = run.space.get("got"), run.space.get("expected")
    if not (isinstance(got, Tensor) and isinstance(expected, Tensor)) or got.is_meta or expected.is_meta:
        return ""
    found = first_difference(got, expected, tolerance(expected))
    return f": {'it ' if found.startswith(('first', 'differs')) else ''}{found}" if found else ""


# ---- errors and the debugger


def _print_error(problem: BaseException, path: Path) -> None:
    """The traceback from the script on, without the kit's own frames."""
    found = traceback.TracebackException(type(problem), problem, own_traceback(problem, path))
    frames = [frame for frame in found.stack if not frame.filename.startswith((_KIT, "<frozen", importlib.__file__))]
    found.stack = traceback.StackSummary.from_list(frames[-20:])
    lines = found.stack.format() if isinstance(problem, StillRunning) else found.format()
    print("".join(lines), end="", file=sys.stderr)


def _debug(stored: StoredScript) -> int:
    """Run the script in Python's debugger: stopped before the failed call, or where an error ends it."""
    line = 0 if stored.facts.get("kind") in ("raised", "import") else stored.facts.get("call_line", 0)
    print("s: step into the call, n: next line, c: go on, u: up to the caller, q: quit", flush=True)
    begin = ["-c", f"tbreak {line}", "-c", "continue"] if line else ["-c", "continue"]
    return subprocess.call([sys.executable, "-m", "pdb", *begin, str(stored.path)])
