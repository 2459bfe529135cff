"""The threads that run in this process, and those that have come since.

A thread of a `ThreadPoolExecutor` that waits for work does not count as running: a pool keeps its threads from one call to the next.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import thread as pools
from queue import SimpleQueue
from types import FrameType

ROUNDS = 40  # a thread that is about to end needs the processor as often as this one does, however busy the machine is
_POOL_LOOP = getattr(getattr(pools, "_worker", None), "__code__", None)  # an idle thread of a pool waits in this function, and in none that it calls

Threads = tuple[set[threading.Thread], set[int]]  # those Python knows, and the idents of all


def running_threads() -> Threads:
    """The threads that run now."""
    frames = sys._current_frames()
    idle = {ident for ident, frame in frames.items() if _waits_for_work(frame)}
    running = set(frames) - idle
    frames.clear()  # this function's own frame is among them, and would keep all that its callers hold until the next garbage collection
    return {thread for thread in threading.enumerate() if thread.ident not in idle}, running


def _waits_for_work(frame: FrameType) -> bool:
    """Is this the innermost frame of a pool's thread that has no work, and none in its queue?"""
    if frame.f_code is not _POOL_LOOP:
        return False
    names = frame.f_locals
    queue = names.get("work_queue")
    return isinstance(queue, SimpleQueue) and queue.empty() and names.get("work_item") is None


def new_threads(before: Threads) -> set[str]:
    """Names of threads that run now and did not before; those that Python's threading does not know are "unnamed"."""
    known, running = running_threads()
    unknown = running - before[1] - {thread.ident for thread in threading.enumerate()}
    return {thread.name for thread in known - before[0] if thread.is_alive()} | ({"unnamed"} if unknown else set())


def pauses() -> Iterator[float]:
    """Seconds to wait between two looks at the threads: short ones first, 0.2 s together."""
    for number in range(ROUNDS):
        yield min(0.0005 * 2**number, 0.0055)
