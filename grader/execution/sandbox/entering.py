"""Raises the walls around this very process: `prepare` once in the parent of the workers, `enter` in each worker.

Between the two lie a fork and no byte of the learner's. What is entered is never left: every wall holds for good.
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
    """What can be made ready beforehand."""

    isolation: Isolation
    rules: int | None  # descriptor of the Landlock rules
    memory: int = limits.MEMORY  # of each worker, in bytes
    hiding: bool = False  # can a worker have a view of the file system that shows nothing of others?
    tasks: int | None = None  # how many processes and threads its user may have, where those of a worker are not counted apart


def prepare(isolation: Isolation, memory: int = limits.MEMORY) -> Sandbox:
    """Make rules ready, and let this process be the one that orphans of its workers fall to."""
    if not isolation:
        return Sandbox(isolation, None)
    with contextlib.suppress(OSError):
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)  # so that no other program reads its memory
    rules = landlock.ruleset(readable_paths()) if isolation.landlock else None
    tasks = limits.tasks_of_user() + (limits.OTHERS if isolation.seccomp else limits.PROCESSES)
    return Sandbox(isolation, rules, memory, isolation.landlock and namespaces.available(), tasks)


def enter(sandbox: Sandbox, parent: int, descriptor: int, memory: int | None = None) -> None:
    """In the worker, which keeps this descriptor and may use this many bytes of memory (None: as prepared).

    Raises where a wall that is wanted cannot be raised: then nothing may run.
    """
    isolation = sandbox.isolation
    if not isolation:
        return
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # else its files in /proc are root's
    limits.prefer_oom_kill()
    clear_environment()
    used = limits.memory_in_use()  # the last thing that is read in /proc
    counted_apart = sandbox.hiding and namespaces.isolate_mounts()
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)  # a new user namespace would forget it
    if os.getppid() != parent:
        os._exit(1)
    if isolation.limits:
        limits.apply(sandbox.memory if memory is None else memory, used, limits.THREADS if counted_apart else sandbox.tasks)
    with contextlib.suppress(OSError):
        kernel.drop_capabilities()
    if isolation.landlock:
        assert sandbox.rules is not None, "they are prepared where this wall is wanted"
        landlock.apply(sandbox.rules)
    os.closerange(3, descriptor)
    os.closerange(descriptor + 1, 1 << 16)
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    if isolation.seccomp:
        column = kernel.machine()
        assert column is not None, "available() has said that this processor's numbers are known"
        seccomp.apply(column, seccomp.program(column, os.getpid()))


def clear_environment() -> None:
    """The environment is emptied, also where it lies in memory, and the current folder is the root."""
    os.chdir("/")
    os.environ.clear()
    sys.dont_write_bytecode = True
    with open("/proc/self/stat") as file:
        begin, end = (int(word) for word in file.read().rpartition(")")[2].split()[47:49])
    if begin:
        ctypes.memset(begin, 0, end - begin)
