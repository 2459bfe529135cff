"""Limits of one run, so that a mistake in the learner's code does not slow down the learner's machine."""

from __future__ import annotations

import contextlib
import sys

if sys.platform != "win32":
    import resource

MEMORY_BYTES = 1024**3  # more than the server uses already
FILE_BYTES = 64 * 1024**2  # of the longest file it may write, which also limits its output


def limit_this_process() -> None:
    """Limit memory and the size of files, and turn core dumps off. A limit that the system lacks is left out."""
    if sys.platform == "win32":
        return
    _set(resource.RLIMIT_CORE, 0)
    _set(resource.RLIMIT_FSIZE, FILE_BYTES)
    if sys.platform.startswith("linux"):
        _set(resource.RLIMIT_AS, _address_space() + MEMORY_BYTES)


def limit_growth(most: int) -> None:
    """Let this process use so many bytes of memory more than it uses now. Only on Linux."""
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
