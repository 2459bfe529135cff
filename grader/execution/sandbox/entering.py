"""Puts this process into the sandbox: `prepare` once in the parent of the workers, `enter` in each worker.

Between the two calls are a fork and no code of the learner's. A process cannot leave the sandbox: every layer is
permanent.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from dataclasses import dataclass

from grader.execution.sandbox import landlock, limits, namespaces, seccomp
from grader.execution.sandbox.isolation import Isolation
from grader.execution.sandbox.paths import readable_paths
from grader.system import kernel


@dataclass(frozen=True)
class Sandbox:
    """What `prepare` makes for all workers."""

    isolation: Isolation
    rules: int | None  # file descriptor of the Landlock rules
    memory: int = limits.MEMORY_BYTES  # of each worker, in bytes
    hiding: bool = False  # does the system let a worker hide /proc and mount everything read-only?
    # how many processes and threads the user may have, if a worker's are not counted separately
    tasks: int | None = None


def prepare(isolation: Isolation, memory: int = limits.MEMORY_BYTES) -> Sandbox:
    """Make the rules, and let this process become the parent of its workers' orphans."""
    if not isolation:
        return Sandbox(isolation, None)
    with contextlib.suppress(OSError):
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)  # so that no other program can read its memory
    rules = landlock.ruleset(readable_paths()) if isolation.landlock else None
    tasks = limits.tasks_of_user() + (limits.OTHERS if isolation.seccomp else limits.PROCESSES)
    return Sandbox(isolation, rules, memory, isolation.landlock and namespaces.available(), tasks)


def enter(sandbox: Sandbox, parent: int, descriptor: int, memory: int | None = None) -> None:
    """Enter the sandbox, in the worker; keep this descriptor open, and allow so many bytes of memory (None: as
    prepared).

    Raises if a layer cannot be set up. Then no code may run.
    """
    isolation = sandbox.isolation
    if not isolation:
        return
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # otherwise its files in /proc belong to root
    limits.prefer_oom_kill()
    clear_environment()
    used = limits.memory_in_use()  # nothing in /proc is read after this
    counted_separately = sandbox.hiding and namespaces.isolate_mounts()
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)  # entering a user namespace would reset it
    if os.getppid() != parent:
        os._exit(1)
    if isolation.limits:
        limits.apply(
            sandbox.memory if memory is None else memory, used, limits.THREADS if counted_separately else sandbox.tasks
        )
    with contextlib.suppress(OSError):
        kernel.drop_capabilities()
    if isolation.landlock:
        assert sandbox.rules is not None, "prepare() makes them if this layer is wanted"
        landlock.apply(sandbox.rules)
    os.closerange(3, descriptor)
    os.closerange(descriptor + 1, 1 << 16)
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    if isolation.seccomp:
        column = kernel.machine()
        assert column is not None, "available() checked that the numbers of this processor are known"
        seccomp.apply(column, seccomp.program(column, os.getpid()))


def clear_environment() -> None:
    """Clear the environment, also the copy in the process's memory, and change to the root folder."""
    os.chdir("/")
    os.environ.clear()
    sys.dont_write_bytecode = True
    with open("/proc/self/stat") as file:
        begin, end = (int(word) for word in file.read().rpartition(")")[2].split()[47:49])
    if begin:
        ctypes.memset(begin, 0, end - begin)
