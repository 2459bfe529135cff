"""Locks a folder, so that one grader at a time writes to it, and others can still read."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path


class FolderInUse(Exception):
    """Another process holds the lock."""


def lock_folder(folder: Path, wait_seconds: float = 0) -> int | None:
    """The descriptor that holds the lock; None where folders cannot be locked (Windows, some network drives).

    The system releases the lock when the process ends. A lock of the folder leaves no file behind, and does not affect
    SQLite's own locks.
    """
    deadline = time.monotonic() + wait_seconds
    try:
        import fcntl

        descriptor = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        return None
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if time.monotonic() < deadline:
                time.sleep(0.05)
                continue
            os.close(descriptor)
            raise FolderInUse from None
        except OSError:
            os.close(descriptor)
            return None


def unlock_folder(descriptor: int | None) -> None:
    if descriptor is not None:
        import fcntl

        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # a process forked from this one may have a copy of the descriptor
        os.close(descriptor)
