"""Ends processes, with everything that they started, and describes how they ended.

On Linux a server (or a zygote) adopts the orphans below it: a process whose parent has ended becomes its child, even in
another session, and `kill_orphans` ends it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Collection
from pathlib import Path

from grader.system import kernel

ENDING_SECONDS = 1.0  # a process that dies closes its socket a moment before it has ended
_PATIENCE_SECONDS = 5.0  # more than any process tree takes to die; a limit, so that the caller never waits for ever

own_children: set[int] = set()  # children that this process started on purpose; all others are orphans that it adopted


def adopt_orphans() -> None:
    """On Linux: orphans below this process become its children."""
    if kernel.is_linux():
        with contextlib.suppress(OSError):
            kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int) -> None:
    """On Linux: the kernel kills this process when its parent ends, however that ends."""
    if kernel.is_linux():
        with contextlib.suppress(OSError):
            kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before the call
            os._exit(1)


def kill_group(pid: int) -> None:
    """Kill what is left of the process group that this child leads; Windows has no groups."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def end_fork(pid: int, seconds: float = 0.0) -> int | None:
    """End a forked child and its group. Return how it ended by itself within so many seconds (negative: the signal),
    None if it had to be killed."""
    deadline = time.monotonic() + seconds
    with contextlib.suppress(ChildProcessError):
        finished, status = os.waitpid(pid, os.WNOHANG)
        while not finished and time.monotonic() < deadline:
            time.sleep(0.002)
            finished, status = os.waitpid(pid, os.WNOHANG)
        kill_group(pid)
        if finished:
            return os.waitstatus_to_exitcode(status)
        os.kill(pid, signal.SIGKILL)  # it may not lead a group yet
        os.waitpid(pid, 0)
    return None


def end_subprocess(process: subprocess.Popen, seconds: float = 0.0) -> int | None:
    """The same for a process of the `subprocess` module."""
    try:
        status = process.wait(seconds)
    except subprocess.TimeoutExpired:
        status = None
    kill_group(process.pid)
    if status is None:
        process.kill()
        process.wait()
    return status


def kill_orphans(exceptions: Collection[int] | None = None) -> None:
    """Kill every child of this process except these (None: `own_children`), and what such a child leaves behind, which
    is adopted in its turn."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while (
        orphans := _children() - set(own_children if exceptions is None else exceptions)
    ) and time.monotonic() < deadline:
        for pid in orphans:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in orphans:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _children() -> set[int]:
    """The children of this process; from the list of all processes if the kernel keeps no list of children."""
    me = os.getpid()
    with contextlib.suppress(OSError):
        return set(map(int, Path(f"/proc/self/task/{me}/children").read_text(encoding="ascii").split()))
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            if int((folder / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[1]) == me:
                found.add(int(folder.name))
    return found


def redirect_to_null(*streams: int) -> None:
    """Redirect these descriptors (by default all three standard streams) to the null device, also for code that writes
    to them directly."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in streams or (0, 1, 2):
        os.dup2(null, stream)
    if null > 2:
        os.close(null)


# ---- how a process ended

CONNECTION_CLOSED = 97  # exit status: the code that ran in the process closed the process's socket
PROCESS_BROKEN = 98  # exit status: that code broke something else that the process needs
NOT_SANDBOXED = 99  # exit status: a layer of the sandbox could not be set up, and no code ran
SANDBOXED = b"w"  # the first byte from a new worker: it is in its sandbox, and no code of the learner's has run

_SIGNALS = {
    "SIGSEGV": "a crash inside native code (segmentation fault)",
    "SIGBUS": "a crash inside native code (bus error)",
    "SIGABRT": "it aborted (SIGABRT)",
    "SIGSYS": "it made a system call that no exercise needs (SIGSYS)",
    "SIGXCPU": "it used up its processor time (SIGXCPU)",
    "SIGKILL": "it was killed (SIGKILL), perhaps because memory ran out",
}


def describe_exit(status: int | None) -> str:
    """Describe an exit status of `subprocess` (negative: a signal); None for a process that closed its connection and
    had to be killed."""
    if status is None or status == CONNECTION_CLOSED:
        return "it closed file descriptors that it did not open, among them the connection to the tests"
    if status == PROCESS_BROKEN:
        return "it broke something that the tests need, or used up the memory"
    if status == NOT_SANDBOXED:
        why = "`headway doctor --grading` says what this machine supports"
        return f"the sandbox could not be set up, so nothing ran; {why}"
    if status >= 0:
        return f"it exited with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return _SIGNALS.get(name, f"it was ended by {name}")
