"""Processes that a worker or a run left behind: they fall to its zygote or engine, which ends them, whatever session they fled into."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection
from pathlib import Path

_PATIENCE = 5.0  # more than any family takes to die; a limit, so that the judge is not kept waiting for ever


def kill_orphans(workers: Collection[int]) -> None:
    """Kill every child of this process that is none of these. What such a child leaves behind comes here in its turn."""
    deadline = time.monotonic() + _PATIENCE
    while (orphans := _children() - set(workers)) and time.monotonic() < deadline:
        for pid in orphans:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in orphans:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _children() -> set[int]:
    """Of this process; where the kernel keeps no list of them, from the list of all processes."""
    me = os.getpid()
    with contextlib.suppress(OSError):
        return set(map(int, Path(f"/proc/self/task/{me}/children").read_text(encoding="ascii").split()))
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            if int((folder / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[1]) == me:
                found.add(int(folder.name))
    return found
