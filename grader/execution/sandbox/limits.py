"""Limits a worker's memory, processor time, threads, file descriptors and file sizes. `worker_limits` lists every
limit.

Memory is bounded in three parts, whatever build of torch is installed:

- private writable memory: RLIMIT_DATA is what the process started with and a budget on top
- shared memory: the filter of system calls allows none (seccomp.py), because RLIMIT_DATA does not count it
- addresses: RLIMIT_AS. It also bounds page tables, and shared memory where calls are not filtered

A GPU needs far more addresses than these. No worker may use one: the exercises run on the processor, and Landlock
allows no device.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

MEMORY_BYTES = 512 * 1024 * 1024  # more than it started with
ADDRESS_BYTES = 1024 * 1024 * 1024  # more than it started with and its memory
STACK_BYTES = 64 * 1024 * 1024  # of the first thread, unless its user has a smaller limit
THREADS = 128  # of a worker whose threads are counted separately from its user's
OTHERS = 1024  # so many more than the user has, if they are counted together: the user's other programs start some too
PROCESSES = 64  # the same, if a worker can start processes
PROCESSOR_SECONDS = 600  # of a worker in all; the test process limits each call by the clock
DESCRIPTORS = 64


def apply(memory: int = MEMORY_BYTES, used: MemoryUse | None = None, tasks: int | None = None) -> None:
    """Set every limit of this process, permanently. `memory`: so many bytes more than it uses; `tasks`: how many
    processes and threads."""
    import resource

    for kind, most in worker_limits(memory, used or memory_in_use(), tasks).items():
        soft, hard = resource.getrlimit(kind)
        for other in (hard, soft) if kind == resource.RLIMIT_STACK else (hard,):
            most = most if other == resource.RLIM_INFINITY else min(most, other)
        resource.setrlimit(kind, (most, most))


def worker_limits(memory: int, used: MemoryUse, tasks: int | None) -> dict[int, int]:
    """Each limit of a worker; a smaller one that its user has stays."""
    import resource

    limits = {
        resource.RLIMIT_DATA: used.data + memory,
        resource.RLIMIT_AS: used.addresses + memory + ADDRESS_BYTES,
        resource.RLIMIT_STACK: STACK_BYTES,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_NOFILE: DESCRIPTORS,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: PROCESSOR_SECONDS,
    }
    return limits if tasks is None else limits | {resource.RLIMIT_NPROC: tasks}  # Linux ignores it for root


@dataclass(frozen=True)
class MemoryUse:
    """How many bytes of addresses and of private writable memory a process has."""

    addresses: int
    data: int


def memory_in_use() -> MemoryUse:
    with open("/proc/self/statm") as file:
        pages = [int(word) for word in file.read().split()]
    page = os.sysconf("SC_PAGE_SIZE")
    return MemoryUse(pages[0] * page, pages[5] * page)


def tasks_of_user() -> int:
    """The number of processes and threads of this user."""
    found, user = 0, os.getuid()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if folder.stat().st_uid == user:
                found += len(os.listdir(folder / "task"))
    return found


def prefer_oom_kill() -> None:
    """If memory runs out, let the kernel kill this process, not the test process."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
