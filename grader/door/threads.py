"""The threads that run in this process, and those that have come since."""

from __future__ import annotations

import sys
import threading

Threads = tuple[set[threading.Thread], set[int]]  # those Python knows, and the idents of all


def threads_now() -> Threads:
    return set(threading.enumerate()), set(sys._current_frames())


def new_threads(before: Threads) -> set[str]:
    """Names of threads that were not there before; those that Python's threading does not know are "unnamed"."""
    known = set(threading.enumerate())
    unknown = set(sys._current_frames()) - before[1] - {thread.ident for thread in known}
    return {thread.name for thread in known - before[0] if thread.is_alive()} | ({"unnamed"} if unknown else set())
