"""Runs a script in this process, and says whether it still fails."""

from __future__ import annotations

import contextlib
import linecache
import math
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from grader.execution.errors import message_of
from grader.execution.proxy import Gradients
from grader.reproduction.chapters import close_chapters
from grader.reproduction.script import plain_copy
from grader.verdict.comparing import Mismatch, close, current, same
from torch import Tensor


class StillRunning(BaseException):
    """The script's time limit was over."""


@dataclass
class ScriptRun:
    """What a script left."""

    space: dict[str, Any] = field(default_factory=dict)
    error: BaseException | None = None


def run_script(path: Path, seconds: float | None = None) -> ScriptRun:
    """Run a script, with a time limit where one is given; the chapters that it opened are closed afterwards."""
    run = ScriptRun({"__name__": "__main__", "__file__": str(path)})
    linecache.checkcache(str(path))
    try:
        code = compile(path.read_text(encoding="utf-8"), str(path), "exec", dont_inherit=True)
        with _time_limit(seconds):
            exec(code, run.space)
    except KeyboardInterrupt:
        raise
    except BaseException as problem:
        run.error = problem
    finally:
        close_chapters()
    return run


def verdict_of(run: ScriptRun, facts: dict[str, Any]) -> str:
    """What became of the failure: "wrong" (as before), "right", or "changed" (something else, right or not)."""
    kind = facts.get("kind")
    if isinstance(run.error, StillRunning):
        return "wrong" if kind == "time" else "changed"
    if kind in ("raised", "rule", "import", "time"):
        if run.error is not None:
            return "wrong" if facts.get("error", "").partition(":")[0] in ("", type(run.error).__name__) else "changed"
        return "changed" if kind == "time" else "right"
    if run.error is not None:
        return "wrong" if facts.get("error") == error_line(run.error) else "changed"
    if "got" in run.space and "expected" in run.space:
        return "right" if agrees(run.space["got"], run.space["expected"], facts.get("tolerance")) else "wrong"
    results = {name: run.space.get(name) for name in facts.get("results", {})}
    return "wrong" if results and agrees(_plain(results), facts["results"], None) else "changed"


def _plain(results: dict[str, Any]) -> dict[str, Any]:
    return {name: plain_copy(vars(value) if isinstance(value, Gradients) else value) for name, value in results.items()}


def agrees(got: Any, expected: Any, tolerance: float | None) -> bool:
    """Is this the expected value, as the tests compare it? Here NaN equals NaN."""
    got, expected, count = _without_nan(got), _without_nan(expected), len(current.mismatches)
    try:
        if tolerance != 0.0 or isinstance(expected, Tensor):
            close(got, expected, tol=tolerance or None)
        else:
            same(got, expected)
    except Mismatch:
        return False
    finally:
        del current.mismatches[count:]
    return True


def _without_nan(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value
    if type(value) in (list, tuple):
        return type(value)(map(_without_nan, value))
    return {key: _without_nan(part) for key, part in value.items()} if type(value) is dict else value


@contextlib.contextmanager
def _time_limit(seconds: float | None) -> Iterator[None]:
    """Raise StillRunning after so many seconds, on systems that can."""
    if seconds is None or not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def fire(signum: int, frame: FrameType | None) -> None:
        raise StillRunning

    before = signal.signal(signal.SIGALRM, fire)
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.25)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def own_traceback(problem: BaseException, path: Path) -> TracebackType | None:
    """The traceback from the script's frame on."""
    traceback = problem.__traceback__
    while traceback is not None and traceback.tb_frame.f_code.co_filename != str(path):
        traceback = traceback.tb_next
    return traceback or problem.__traceback__


def error_line(problem: BaseException) -> str:
    """The type and the message of an exception, in one line."""
    text = " ".join(message_of(problem).split())
    return f"{type(problem).__name__}: {text}" if text else type(problem).__name__


def flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
