"""The door in process: the learner's module lives beside the tests. Quick, good for printing and debugging, and no protection.

A time limit holds for Python code only: a loop inside C cannot be interrupted from its own process. The worker door has no such gap.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from ..graft import ChapterSource
from .errors import ChapterBroken, OutOfTime
from .servant import Servant


class Local:
    """A servant in this process, with a time limit on each answer. `trusted` (the reference) needs none."""

    def __init__(self, sources: list[ChapterSource], chapter: str, seconds: float, import_seconds: float, trusted: bool = False) -> None:
        self.servant = Servant(sources, chapter, "reference" if trusted else "learner")
        self.seconds, self.import_seconds, self.trusted = seconds, import_seconds, trusted

    def exchange(self, op: str, tree: Any, buffers: list[bytes]) -> tuple[dict, list[bytes]]:
        if self.trusted:
            return self.servant.answer(op, tree, buffers)
        limit = self.import_seconds if op == "load" else self.seconds
        try:
            with _no_way_out(), _alarm(limit):
                return self.servant.answer(op, tree, buffers)
        except OutOfTime:
            if op == "load":
                raise ChapterBroken(f"importing it did not end within {limit:g} s", timed_out=True) from None
            raise OutOfTime(f"the call did not end within {limit:g} s") from None

    def close(self) -> None:
        self.servant.close()


@contextlib.contextmanager
def _no_way_out() -> Iterator[None]:
    """While the learner's code runs, ending the process is an exception like sys.exit()."""

    def refuse(*_: Any) -> None:
        raise SystemExit("os._exit()")

    originals = os._exit, os.abort
    os._exit = os.abort = refuse
    try:
        yield
    finally:
        os._exit, os.abort = originals


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Raise OutOfTime here after `seconds`, again and again until the code gives way; what alarm there was goes on after."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if not hasattr(signal, "setitimer"):
        with _alarm_by_thread(seconds):
            yield
        return

    def fire(*_: Any) -> None:
        raise OutOfTime

    old_handler = signal.signal(signal.SIGALRM, fire)
    old_left, old_interval = signal.setitimer(signal.ITIMER_REAL, seconds, 0.25)
    began = time.monotonic()
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old_handler)
        if old_left:
            signal.setitimer(signal.ITIMER_REAL, max(0.01, old_left - (time.monotonic() - began)), old_interval)


@contextlib.contextmanager
def _alarm_by_thread(seconds: float) -> Iterator[None]:
    """Where there are no signals (Windows): another thread asks the interpreter to raise OutOfTime in this one."""
    import ctypes

    main, done = threading.get_ident(), threading.Event()

    def wait() -> None:
        limit = seconds
        while not done.wait(limit):
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(main), ctypes.py_object(OutOfTime))
            limit = 0.25

    thread = threading.Thread(target=wait, name="headway time limit", daemon=True)
    thread.start()
    while thread.ident not in sys._current_frames():  # so that the servant counts it among those already there
        time.sleep(0)
    try:
        yield
    finally:
        done.set()
        thread.join()
