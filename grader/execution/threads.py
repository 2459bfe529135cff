"""Lists the threads of this process, and those that started since an earlier list.

A thread of a `ThreadPoolExecutor` that waits for work does not count as running, because a pool keeps its threads from
one call to the next.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import thread as pools
from queue import SimpleQueue
from types import FrameType

# number of checks: on a busy machine, a thread that is about to end gets the processor as often as this one does
ROUNDS = 40
# an idle thread of a pool waits in this function itself, not in one that it calls
_POOL_LOOP = getattr(getattr(pools, "_worker", None), "__code__", None)

Threads = tuple[set[threading.Thread], set[int]]  # the threads of Python's threading, and the idents of all threads


def running_threads() -> Threads:
    """The threads that run now."""
    frames = sys._current_frames()
    idle = {ident for ident, frame in frames.items() if _waits_for_work(frame)}
    running = set(frames) - idle
    # it contains this function's frame, and would keep its callers' variables alive until the next garbage collection
    frames.clear()
    return {thread for thread in threading.enumerate() if thread.ident not in idle}, running


def _waits_for_work(frame: FrameType) -> bool:
    """Is this the innermost frame of a pool's thread that has no work, and whose queue is empty?"""
    if frame.f_code is not _POOL_LOOP:
        return False
    names = frame.f_locals
    queue = names.get("work_queue")
    return isinstance(queue, SimpleQueue) and queue.empty() and names.get("work_item") is None


def new_threads(before: Threads) -> set[str]:
    """Names of threads that run now and did not before; a thread that did not start through Python's threading is
    "unnamed"."""
    known, running = running_threads()
    unknown = running - before[1] - {thread.ident for thread in threading.enumerate()}
    return {thread.name for thread in known - before[0] if thread.is_alive()} | ({"unnamed"} if unknown else set())


def pauses() -> Iterator[float]:
    """Seconds to wait between two checks of the threads: short waits first, 0.2 s in all."""
    for number in range(ROUNDS):
        yield min(0.0005 * 2**number, 0.0055)
