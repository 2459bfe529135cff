"""Runs a script in this process, and says whether it still fails."""

from __future__ import annotations

import base64
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
from grader.execution.values import pack, unpack
from grader.reproduction.chapters import close_chapters
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
    """What became of the failure: "wrong" (it fails as before), "right" (the expected result), or "changed" (something else, right or not)."""
    kind = facts.get("kind")
    if isinstance(run.error, StillRunning):
        return "wrong" if kind == "time" else "changed"
    if kind in ("raised", "import", "time") or run.error is not None:
        return _verdict_of_error(run.error, facts)
    if "got" in run.space and "expected" in run.space:
        got, expected = run.space["got"], run.space["expected"]
        right = agrees(got, expected, facts.get("tolerance")) and (kind != "rule" or _has_same_bits(got, expected))
        return "right" if right else "wrong"
    if "holds" in run.space:
        return "right" if run.space["holds"] else "wrong"
    return "wrong" if _same_results(run.space, facts) else "changed"


def _verdict_of_error(error: BaseException | None, facts: dict[str, Any]) -> str:
    known = [entry["reply"]["error"] for entry in facts.get("results", ()) if "error" in entry.get("reply", {})]
    if error is None:
        return "right" if facts.get("kind") in ("raised", "import") and (known or facts.get("kind") == "import") else "changed"
    if facts.get("kind") == "import" or not facts.get("results"):
        return "wrong"
    same_type = any(entry["type"] == type(error).__name__ or entry["kind"] == "rule" for entry in known)
    return "wrong" if same_type else "changed"


def agrees(got: Any, expected: Any, tolerance: float | None) -> bool:
    """Is this the expected value, as the tests compare it? Here a number that is NaN equals another one: the results of a failure may be NaN."""
    got, expected, count = _without_nan(got), _without_nan(expected), len(current.mismatches)
    try:
        value = got.detach() if isinstance(got, Tensor) else got
        if isinstance(expected, float | list | tuple | dict) and not isinstance(expected, bool) and tolerance != 0.0:
            close(value, expected, tol=tolerance or None)
        else:
            same(value, expected) if not isinstance(expected, Tensor) else close(value, expected, tol=tolerance or None)
    except Mismatch:
        return False
    finally:
        del current.mismatches[count:]
    return True


def _has_same_bits(got: Any, expected: Any) -> bool:
    """Is nothing changed, not even a last digit? A rule such as "the call must not change its argument" has no tolerance."""
    return _packed(got) == _packed(expected)


def _packed(value: Any) -> tuple[Any, list[bytes]]:
    tree, buffers = pack(value, lambda part: [0, getattr(part, "__name__", type(part).__name__)])
    return tree, [bytes(part) for part in buffers]


def _without_nan(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value
    if type(value) in (list, tuple):
        return type(value)(map(_without_nan, value))
    return {key: _without_nan(part) for key, part in value.items()} if type(value) is dict else value


def _same_results(space: dict[str, Any], facts: dict[str, Any]) -> bool:
    """Are the results those of the failure?"""
    for code, entry in zip(facts.get("shown", ()), facts.get("results", ())):
        if "value" not in entry.get("reply", {}):
            return False
        try:
            before = unpack(entry["reply"]["value"], [base64.b64decode(part) for part in entry["out"]], lambda handle: str(handle[1]))
            now = eval(code, dict(space))
            plain = unpack(*_packed(now), lambda handle: str(handle[1]))
        except Exception:
            return False
        if not agrees(plain, before["output"] if entry["op"] == "gradients" else before, None):
            return False
    return True


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
