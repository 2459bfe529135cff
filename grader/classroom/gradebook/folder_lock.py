"""Locks the folder of a gradebook, so that one grader at a time writes to it, and others can still read."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


class FolderInUse(Exception):
    """Another process holds the lock."""


def lock_folder(folder: Path) -> int | None:
    """The descriptor that holds the lock: the system releases it when the process ends. None where folders cannot be locked (Windows, some network drives).

    It locks the folder and not a file in it: then no file is left behind, and SQLite's own locks on its file are not affected.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return None
    try:
        _flock(descriptor)
    except BlockingIOError:
        os.close(descriptor)
        raise FolderInUse from None
    except (ImportError, OSError):
        os.close(descriptor)
        return None
    return descriptor


def unlock_folder(descriptor: int | None) -> None:
    if descriptor is not None:
        with contextlib.suppress(OSError):
            _flock(descriptor, release=True)  # not only closed: a process forked from this one may have a copy of the descriptor
        os.close(descriptor)


def _flock(descriptor: int, release: bool = False) -> None:
    import fcntl

    fcntl.flock(descriptor, fcntl.LOCK_UN if release else fcntl.LOCK_EX | fcntl.LOCK_NB)
