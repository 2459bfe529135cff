"""The engine's processes: whatever a run has started goes when the run goes."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys

from grader.execution.sandbox import orphans

_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36  # <linux/prctl.h>

runs: set[int] = set()  # the children of this process that are its own doing


def adopt_orphans() -> None:
    """On Linux: what a run leaves behind becomes a child of this process, even where it has made a session of its own."""
    if sys.platform.startswith("linux"):
        _prctl(_SET_CHILD_SUBREAPER, 1)


def end_with(parent: int) -> None:
    """On Linux: this process is killed when its parent ends, however that ends."""
    if sys.platform.startswith("linux"):
        _prctl(_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it was quicker
            os._exit(1)


def kill_group(pid: int) -> None:
    """Kill a run, and with it what stayed in its session."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def kill_orphans() -> None:
    """Kill every child of this process that is no run."""
    orphans.kill_orphans(runs)


def _prctl(*arguments: int) -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(*arguments, 0, 0, 0)
