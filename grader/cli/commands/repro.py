"""Runs the failure of an exercise again: the script that the last failed test left."""

from __future__ import annotations

import importlib
import os
import pdb
import shlex
import sys
import traceback
from pathlib import Path
from types import TracebackType

from grader.console.output import make_console, print_error, print_wrapped
from grader.course.status import locate, read_course, short_path
from grader.course.syllabus import ROOT, Exercise
from grader.execution.target import NoTarget, resolve
from grader.reproduction.chapters import BrokenRule, close_chapters
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

RIGHT, WRONG, UNUSABLE, INTERRUPTED = 0, 1, 2, 130
SECONDS = 6.0  # for a call that did not end in the tests
_KIT = f"{ROOT / 'grader'}{os.sep}"


def repro(named: Exercise | None, debug: bool) -> int:
    """Run the script of this exercise, or else of the last failure."""
    stored = stored_script(named.name) if named else last_script()
    if stored is None:
        whose = f" {named.name}" if named else ""
        call = f"there is no failed call{' of' if named else ''}{whose} to make again"
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
    try:
        run = (
            _debug(stored)
            if debug
            else run_script(stored.path, SECONDS if stored.facts.get("kind") == "time" else None)
        )
    except KeyboardInterrupt:
        return INTERRUPTED
    if run is None:
        return WRONG
    if isinstance(run.error, NoTarget):
        print_error(str(run.error))
        return UNUSABLE
    flush()
    if run.error is not None and not debug:
        _print_error(run.error, stored.path)
    verdict = verdict_of(run, stored.facts)
    console.print()
    print_wrapped(
        console,
        _conclusion(verdict, run, stored, exercise),
        style="green" if verdict == "right" else "red" if verdict == "wrong" else "yellow",
    )
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
        found.append(f"The call did not end in the tests; here it is stopped after {SECONDS:g} s.")
    return found


def _conclusion(verdict: str, run: ScriptRun, stored: StoredScript, exercise: Exercise) -> str:
    folder = stored.facts.get("folder")
    tests = (
        f"pytest --target {shlex.quote(folder)} --exercise {exercise.name}"
        if folder
        else f"headway check {exercise.name}"
    )
    if verdict == "right":
        what = (
            "The call now returns the expected value."
            if stored.facts.get("kind") not in ("raised", "rule", "import")
            else "The call no longer raises an error."
        )
        return f"{what} Run {tests} for all tests."
    if isinstance(run.error, StillRunning):
        return f"The call has not ended after {SECONDS:g} s."
    if isinstance(run.error, BrokenRule):
        return f"The call still breaks a rule: {run.error}."
    if run.error is not None:
        what = "Importing the chapter" if stored.facts.get("kind") == "import" else "The call"
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
    return (
        f": it {found.removeprefix('it ')}" if found.startswith(("first", "differs")) else f": {found}" if found else ""
    )


# ---- errors and the debugger


def _print_error(problem: BaseException, path: Path) -> None:
    """The traceback from the script on, without the kit's own frames."""
    found = traceback.TracebackException(type(problem), problem, own_traceback(problem, path))
    frames = [frame for frame in found.stack if not frame.filename.startswith((_KIT, "<frozen", importlib.__file__))]
    found.stack = traceback.StackSummary.from_list(frames[-20:])
    if isinstance(problem, StillRunning):
        print("".join(found.stack.format()), end="", file=sys.stderr)
    else:
        print("".join(found.format()), end="", file=sys.stderr)


def _debug(stored: StoredScript) -> ScriptRun | None:
    """Run the script in the debugger: stopped before the failed call, or where it raises.

    None if the user left the debugger.
    """
    line = stored.facts.get("call_line", 0)
    if stored.facts.get("kind") in ("raised", "import") or not line:
        run = run_script(stored.path)
        _debug_error(run, stored.path)
        return run
    print("Stopped before the failed call. s: step into it, n: next line, c: go on, q: quit")
    debugger = _Debugger(nosigint=True)
    debugger.rcLines.append("continue")  # from the first line of the script, where it stops first
    text = stored.path.read_text(encoding="utf-8")
    run = ScriptRun({"__name__": "__main__", "__file__": str(stored.path)})
    try:
        debugger.set_break(str(stored.path), line)
        debugger.run(compile(text, str(stored.path), "exec", dont_inherit=True), run.space)
    except Exception as problem:
        run.error = problem
    finally:
        close_chapters()
    _debug_error(run, stored.path)
    return None if debugger.left else run


def _debug_error(run: ScriptRun, path: Path) -> None:
    """Print the error, if there is one, and stop in the debugger at the learner's line that raised it."""
    if run.error is not None and not isinstance(run.error, NoTarget):
        _print_error(run.error, path)
        flush()
        pdb.post_mortem(_learners_traceback(run.error, path))


class _Debugger(pdb.Pdb):
    """Notes that the user left it, which ends the script without an exception."""

    left = False

    def do_quit(self, arg: str) -> bool | None:
        self.left = True
        return super().do_quit(arg)

    do_q = do_exit = do_quit


def _learners_traceback(problem: BaseException, path: Path) -> TracebackType | None:
    """The traceback up to the last frame of the learner's own code: the debugger stops there, and not inside torch."""
    traceback = own_traceback(problem, path)
    folder, last, here = os.path.dirname(str(path)), traceback, traceback
    while here is not None:
        name = here.tb_frame.f_code.co_filename
        if os.path.basename(name).startswith("ch") and os.path.isfile(name) or name.startswith(folder):
            last = here
        here = here.tb_next
    if last is not None:
        last.tb_next = None
    return traceback
