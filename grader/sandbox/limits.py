"""What a worker may use up: memory, processor time, descriptors, the size of files."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

MEMORY = 512 * 1024 * 1024  # more than it began with
ADDRESSES = 1536 * 1024 * 1024
PROCESSES = 32  # more than its user has, where it can start any
PROCESSOR_SECONDS = 600  # of a whole worker; a call's own limit is the judge's, by the clock
DESCRIPTORS = 64


def apply(addresses: bool = True, processes: bool = False) -> None:
    """From here on; `addresses`: also limit the address space, which accelerators need much of; `processes`: also their number."""
    import resource

    size, data = _in_use()
    wanted = {
        resource.RLIMIT_DATA: data + MEMORY,
        resource.RLIMIT_CPU: PROCESSOR_SECONDS,
        resource.RLIMIT_NOFILE: DESCRIPTORS,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
    }
    if addresses:
        wanted[resource.RLIMIT_AS] = size + ADDRESSES
    if processes:
        wanted[resource.RLIMIT_NPROC] = _tasks_of(os.getuid()) + PROCESSES  # means nothing for root
    for kind, most in wanted.items():
        _, hard = resource.getrlimit(kind)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))


def _in_use() -> tuple[int, int]:
    """Bytes of addresses and of data that this process has."""
    with open("/proc/self/statm") as file:
        pages = [int(word) for word in file.read().split()]
    page = os.sysconf("SC_PAGE_SIZE")
    return pages[0] * page, pages[5] * page


def _tasks_of(user: int) -> int:
    """How many processes and threads this user has."""
    found = 0
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if folder.stat().st_uid == user:
                found += len(os.listdir(folder / "task"))
    return found


def first_to_go() -> None:
    """Where memory runs out, the kernel ends this process rather than the judge."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
