"""Reads what Linux reports about processes: their names, their descendants, and which of them still run."""

from __future__ import annotations

import os
import platform
from pathlib import Path

Members = dict[int, str]  # process -> its start time, because process numbers are reused


def descendants(pid: int) -> Members:
    """All descendants of this process."""
    found: Members = {}
    new = [pid]
    while new:
        children = [child for parent in new for child in children_of(parent)]
        found |= {child: start_time(child) for child in children}
        new = children
    return found


def children_of(pid: int) -> list[int]:
    """The children of all its threads; empty if it ends meanwhile."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    return [int(child) for thread in threads for child in _read(f"/proc/{pid}/task/{thread}/children").split()]


def living_children(pid: int) -> list[int]:
    return list(filter(alive, children_of(pid)))


def alive(pid: int) -> bool:
    """Whether a process still runs; one that has ended and only waits to be reaped does not."""
    return bool(start_time(pid))


def parent_of(pid: int) -> int:
    return int(_stat(pid)[1])


def still_running(members: Members) -> list[int]:
    """The processes of these that still run: no zombies, and no newer process with the same number."""
    return [pid for pid, since in members.items() if since and start_time(pid) == since]


def command_line(pid: int) -> str:
    return _read(f"/proc/{pid}/cmdline").replace("\0", " ").strip()


def status_of(pid: int) -> dict[str, str]:
    """The fields of /proc/PID/status."""
    lines = (line.partition(":") for line in _read(f"/proc/{pid}/status").splitlines())
    return {name: value.strip() for name, _, value in lines}


def memory_of(pid: int) -> int:
    """Bytes of this process's private memory, and of shared memory that it has touched."""
    status = status_of(pid)
    return 1024 * sum(int(status[name].split()[0]) for name in ("RssAnon", "RssShmem", "VmPTE"))


def start_time(pid: int) -> str:
    """Start time of a process in the kernel's clock ticks; empty if it has ended or is a zombie."""
    fields = _stat(pid)
    return "" if not fields or fields[0] == "Z" else fields[19]


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name: state, parent and so on."""
    return _read(f"/proc/{pid}/stat").rpartition(")")[2].split()


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def may_have_huge_pages() -> bool:
    """Whether this system allows a process to put its memory into huge pages."""
    setting = Path("/sys/kernel/mm/transparent_hugepage/enabled")  # missing where the kernel has none
    allowed = setting.exists() and "[never]" not in setting.read_text()
    return allowed and tuple(map(int, platform.release().split(".")[:2])) >= (6, 1)


def kilobytes_in_huge_pages(pid: int) -> int:
    return int(_read(f"/proc/{pid}/smaps_rollup").partition("AnonHugePages:")[2].split()[0])
