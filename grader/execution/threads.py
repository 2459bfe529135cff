"""Lists the threads of this process, and those that started since an earlier list.

A thread of a `ThreadPoolExecutor` that waits for work does not count: a pool keeps its threads for later calls. A rank
of a simulated group that waits for its turn does not count either.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
from concurrent.futures import thread as pools
from types import FrameType

from grader.execution.simulated_group import RankThread

ROUNDS = 40  # on a busy machine, a thread that is about to end gets the processor as often as this one does
PAUSE_SECONDS = 0.005

Threads = tuple[set[threading.Thread], set[int]]  # the threads of Python's threading, and the idents of all threads


def current_frames() -> dict[int, FrameType]:
    """The innermost frame of each thread, by its ident.

    Python 3.11 may collect garbage meanwhile. A function that the collector calls lets other threads run, and one that
    ends then waits for this list, which waits for it."""
    collects = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames()
    finally:
        if collects:
            gc.enable()


def running_threads() -> Threads:
    """The threads that run now."""
    frames = current_frames()
    idle = {ident for ident, frame in frames.items() if _waits_for_work(frame)}
    running = set(frames) - idle
    frames.clear()  # it contains this function's frame, and would keep its callers' variables alive
    return {thread for thread in threading.enumerate() if thread.ident not in idle}, running


def _waits_for_work(frame: FrameType) -> bool:
    """Is this the innermost frame of a pool's thread that has no work, or of a rank that waits for its turn?"""
    if frame.f_code is RankThread.wait_for_turn.__code__:
        return True
    if frame.f_code is not pools._worker.__code__:  # type: ignore[attr-defined]
        return False
    names = frame.f_locals
    return "work_queue" in names and names["work_queue"].empty() and names.get("work_item") is None


def new_threads(before: Threads) -> set[str]:
    """Names of threads that run now and did not before, and do not end soon; a thread that did not start through
    Python's threading is "unnamed"."""
    for _ in range(ROUNDS):
        if not _new_threads(before):
            break
        time.sleep(PAUSE_SECONDS)
    return _new_threads(before)


def _new_threads(before: Threads) -> set[str]:
    known, running = running_threads()
    unknown = running - before[1] - {thread.ident for thread in threading.enumerate()}
    return {thread.name for thread in known - before[0] if thread.is_alive()} | ({"unnamed"} if unknown else set())
