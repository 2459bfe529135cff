"""Limits of one run, so that a mistake in the learner's code does not slow down the learner's machine."""

from __future__ import annotations

import contextlib
import sys

if sys.platform != "win32":
    import resource

MEMORY = 1024**3  # bytes beyond what the server holds already
FILE = 64 * 1024**2  # the longest file it may write, and so the most it can print


def limit_this_process() -> None:
    """Memory, the size of files, and no core dumps. A limit that the system does not know is left out."""
    if sys.platform == "win32":
        return
    _set(resource.RLIMIT_CORE, 0)
    _set(resource.RLIMIT_FSIZE, FILE)
    if sys.platform.startswith("linux"):
        _set(resource.RLIMIT_AS, _address_space() + MEMORY)


def limit_growth(most: int) -> None:
    """From here on this process may take so many bytes of memory more than it has. On Linux only."""
    if sys.platform.startswith("linux"):
        with open("/proc/self/statm", encoding="ascii") as file:
            data = int(file.read().split()[5]) * resource.getpagesize()
        _set(resource.RLIMIT_DATA, data + most)


def _set(which: int, most: int) -> None:
    with contextlib.suppress(OSError, ValueError):
        _, hard = resource.getrlimit(which)
        resource.setrlimit(which, (most, hard))


def _address_space() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()
