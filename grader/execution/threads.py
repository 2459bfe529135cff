"""Lists the threads of this process, and those that started since an earlier list."""

from __future__ import annotations

import sys
import threading
import time

ROUNDS = 40  # on a busy machine, a thread that is about to end gets the processor as often as this one does
PAUSE_SECONDS = 0.005

Threads = tuple[set[threading.Thread], set[int]]  # the threads of Python's threading, and the idents of all threads


def running_threads() -> Threads:
    """The threads that run now."""
    return set(threading.enumerate()), set(sys._current_frames())


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
    unknown = running - before[1] - {thread.ident for thread in known}
    return {thread.name for thread in known - before[0] if thread.is_alive()} | ({"unnamed"} if unknown else set())
