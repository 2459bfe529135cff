"""Runs the learner's code in the process of the tests: quick, good for printing and debugging, and without protection.

Its time limit works for Python code only: a loop inside C cannot be interrupted from its own process. So the process of
a server's run ends itself, or is ended (late_calls.py). Plain pytest has this gap; a worker does not.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import torch
from grader.course.chapter_source import ChapterSource
from grader.course.syllabus import Chapter
from grader.execution.chapter_package import LEARNER
from grader.execution.connection import HostConnection, Reply, Request
from grader.execution.errors import ChapterBroken, ExtendDeadline, HostDied, OutOfTime, Where
from grader.execution.host import Host
from grader.execution.late_calls import CallWatch, slowdown
from grader.execution.target import package_sources, resolve
from grader.execution.threads import current_frames

NoteLine = Callable[[FrameType | None], None]
Check = Callable[[FrameType | None], None]  # raises OutOfTime if the code that runs this frame has to end

AGAIN_SECONDS = 0.25  # between two checks of code that is late
IMPORT_GRACE_SECONDS = 30.0  # a call may take so much longer while it imports a library


class InProcessHost(HostConnection):
    """Connects to a host in this process, with a time limit on each answer; a `trusted` one (the reference) has no
    limit."""

    bytes_received = 0  # nothing is sent
    debugged = False  # stopped in a debugger: then no time limit applies

    def __init__(
        self, sources: list[ChapterSource], chapter: str, seconds: float, import_seconds: float, trusted: bool = False,
        extend_deadline: ExtendDeadline = lambda _: None, watch: CallWatch | None = None,
    ) -> None:  # fmt: skip
        self.shortcuts: set[str] = set()
        self.import_shortcuts: set[str] = set()
        self.loading = False
        self.host = Host(sources, chapter, "reference" if trusted else LEARNER, self._notice)
        self.seconds, self.import_seconds, self.trusted = seconds, import_seconds, trusted
        self.extend_deadline, self.watch = extend_deadline, watch or CallWatch()
        self.random_state = _random_state()

    def exchange_all(self, requests: list[Request], replies: list[Reply]) -> None:
        """Answer with the host's own random state: what it draws must not depend on what the reference or the test has
        drawn."""
        outside = _random_state()
        _set_random_state(self.random_state)
        try:
            self._answer_in_time(requests, replies)
        finally:
            self.random_state = _random_state()
            _set_random_state(outside)

    def _extend(self, seconds: float) -> None:
        self.extend_deadline(seconds)
        self.watch.begin(seconds)

    def _notice(self, name: str) -> None:
        (self.import_shortcuts if self.loading else self.shortcuts).add(name)

    def _answer_in_time(self, requests: list[Request], replies: list[Reply]) -> None:
        self.loading = loading = requests[-1][0] == "load"
        if self.trusted:
            replies += [self.host.answer(*request) for request in requests]
            return
        limit = self.import_seconds if loading else self.seconds
        clock = limit * slowdown()
        self._extend(clock)
        where: Where | None = None

        def note_line(frame: FrameType | None) -> None:
            nonlocal where
            where = where or self.host.descriptions.line_of(frame)

        try:
            import_grace = 0.0 if loading else IMPORT_GRACE_SECONDS
            limited = _time_limit(clock, import_grace, self._extend, note_line)
            with _exit_is_an_error(loading), _interruptible(), limited as renew:
                replies.append(self.host.answer(*requests[0]))
                for request in requests[1:]:
                    renew()
                    replies.append(self.host.answer(*request))
        except HostDied as problem:
            if loading:
                raise ChapterBroken(str(problem)) from None
            raise
        except OutOfTime:
            if loading:
                raise ChapterBroken(f"importing it did not end within {limit:g} s", where, timed_out=True) from None
            raise OutOfTime(f"the call did not end within {limit:g} s", where) from None
        finally:
            self.watch.end()

    def abandon(self) -> None:
        pass  # there is no other process to start

    def close(self) -> None:
        self.host.close()


def _random_state() -> tuple[torch.Tensor, tuple]:
    return torch.default_generator.get_state(), random.getstate()


def _set_random_state(state: tuple[torch.Tensor, tuple]) -> None:
    torch.default_generator.set_state(state[0])
    random.setstate(state[1])


@contextlib.contextmanager
def _exit_is_an_error(loading: bool) -> Iterator[None]:
    """While the learner's code runs, ending the process raises HostDied, which is also what happens with a worker."""

    def refuse(status: Any = 134) -> None:
        who = "importing it" if loading else "your code"
        raise HostDied(f"{who} ended the process it ran in: it exited with status {status}")

    originals = os._exit, os.abort
    os._exit = os.abort = refuse  # type: ignore[assignment]  # none of the three returns
    try:
        yield
    finally:
        os._exit, os.abort = originals


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Control-C ends the run even if the learner's code catches it; a KeyboardInterrupt that the code raises itself
    does not."""
    pressed = False

    def interrupt(*_: Any) -> None:
        nonlocal pressed
        pressed = True
        raise KeyboardInterrupt

    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield
        return
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if pressed:
            raise KeyboardInterrupt


@contextlib.contextmanager
def _time_limit(
    seconds: float, import_grace: float, extend_deadline: ExtendDeadline, note_line: NoteLine
) -> Iterator[Callable[[], None]]:
    """Raise OutOfTime in this thread after `seconds`, again and again until the code returns. The value renews the
    limit.

    `note_line` is called before, with the frame that runs. Code that catches everything and tries again does not end:
    then the process of the run is ended (late_calls.py).
    """
    over, began = False, time.monotonic()

    def check(frame: FrameType | None) -> None:
        # hypothesis' callback, which swallows exceptions; the next check comes soon
        if over or frame is not None and frame.f_code.co_name == "gc_callback":
            return
        if _debugging(frame):
            InProcessHost.debugged = True
            renew()
            return
        if time.monotonic() - began <= seconds + import_grace and _importing(frame):
            extend_deadline(seconds)
            return
        note_line(frame)
        raise OutOfTime

    def renew() -> None:
        nonlocal began
        began = time.monotonic()
        check_after(seconds)
        extend_deadline(seconds)

    has_signals = threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer")
    with (_checks_by_signal if has_signals else _checks_by_thread)(seconds, check) as check_after:
        try:
            try:
                yield renew
            finally:
                over = True
        finally:  # also if a check came between the last line of the code and the line above
            over = True


@contextlib.contextmanager
def _checks_by_signal(seconds: float, check: Check) -> Iterator[Callable[[float], object]]:
    """Check this thread after `seconds`, and again and again, by an alarm; the value sets another time for the next
    check. Restore an earlier alarm afterwards."""

    def check_after(seconds: float) -> tuple[float, float]:
        return signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_SECONDS)

    entered = time.monotonic()
    old_handler = signal.signal(signal.SIGALRM, lambda _, frame: check(frame))
    old_left, old_interval = check_after(seconds)
    try:
        yield check_after
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old_handler)
        if old_left:
            signal.setitimer(signal.ITIMER_REAL, max(0.01, old_left - (time.monotonic() - entered)), old_interval)


@contextlib.contextmanager
def _checks_by_thread(seconds: float, check: Check) -> Iterator[Callable[[float], object]]:
    """The same without signals (on Windows, or outside the main thread): another thread makes the check, and makes the
    interpreter raise OutOfTime in this one."""
    import ctypes

    here, done = threading.get_ident(), threading.Event()
    until = time.monotonic() + seconds

    def check_after(seconds: float) -> None:
        nonlocal until
        until = time.monotonic() + seconds

    def wait() -> None:
        left = seconds
        while not done.wait(left):
            if (left := until - time.monotonic()) > 0:
                continue
            left = AGAIN_SECONDS
            try:
                check(current_frames().get(here))
            except OutOfTime:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(here), ctypes.py_object(OutOfTime))

    thread = threading.Thread(target=wait, name="headway time limit", daemon=True)
    thread.start()
    # so that the host's check of threads counts it as there before the call
    while thread.ident not in current_frames():
        time.sleep(0)
    try:
        yield check_after
    finally:
        done.set()
        thread.join()


def _importing(frame: FrameType | None) -> bool:
    """Is Python importing a library now? Torch imports parts of itself at their first use, and an interrupted import
    would break all later ones."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _debugging(frame: FrameType | None) -> bool:
    """Is this frame, or a caller of it, one of a debugger?"""
    while frame is not None:
        if str(frame.f_globals.get("__name__")).partition(".")[0] in ("bdb", "pydevd", "_pydevd_bundle"):
            return True
        frame = frame.f_back
    return False


# ---- the reference, imported when it is first needed: never if all its replies are recorded


class ReferenceConnection(HostConnection):
    """Looks like a host that has loaded the chapter."""

    seconds = 0.0
    bytes_received = 0

    def __init__(self, start: Callable[[], InProcessHost]) -> None:
        self._start = start
        self._host: InProcessHost | None = None
        self.shortcuts: set[str] = set()
        self.import_shortcuts: set[str] = set()

    def exchange_all(self, requests: list[Request], replies: list[Reply]) -> None:
        if requests[-1][0] == "load":
            replies += [({"value": None}, []) for _ in requests]
            return
        if self._host is None:
            self._host = self._start()
            self._host.exchange_all([("begin", [0, []], []), ("load", [], [])], [])
        self._host.exchange_all(requests, replies)

    def abandon(self) -> None:
        pass  # the reference's answers are well-formed

    def close(self) -> None:
        if self._host:
            self._host.close()


def connect_reference(chapter: Chapter) -> ReferenceConnection:
    """A connection to the reference of this chapter."""
    return ReferenceConnection(
        lambda: InProcessHost(
            package_sources(resolve("solutions"), chapter, whole=True), chapter.name, 0, 0, trusted=True
        )
    )
