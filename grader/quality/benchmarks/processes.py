"""Reads what Linux reports about processes: their descendants, which of them still run, their memory and processor time, and their sockets."""

from __future__ import annotations

import os
import re
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_SOCKET = re.compile(r"socket:\[(\d+)\]")

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


def find_process(pids: list[int], words: str) -> int:
    """The first of these processes whose command line contains these words, without a bubblewrap around it; 0 if there is no such process."""
    for pid in pids:
        if words.encode() in _read(f"/proc/{pid}/cmdline") and b"bwrap" not in _read(f"/proc/{pid}/comm"):
            return pid
    return 0


def command_line(pid: int) -> str:
    return _read(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode(errors="replace").strip()


def name_of(pid: int) -> str:
    """The name of a process in a list of processes; empty for one that has ended."""
    return _read(f"/proc/{pid}/comm").decode(errors="replace").strip()


def memory(pid: int) -> tuple[float, float]:
    """Resident megabytes, and the proportional share of them (Rss and Pss); NaN if they cannot be read."""
    words = dict(re.findall(rb"^(Rss|Pss): +(\d+) kB", _read(f"/proc/{pid}/smaps_rollup"), re.MULTILINE))
    rss, pss = (int(words[key]) / 1024 if key in words else float("nan") for key in (b"Rss", b"Pss"))
    return rss, pss


def processor(pid: int) -> float:
    """Processor seconds of the process and of its children that have ended; 0 if they cannot be read."""
    return sum(map(int, _stat(pid)[11:15])) / _TICKS


def descriptors(pid: int) -> int:
    return len(_links(pid))


def sockets(pids: list[int]) -> set[str]:
    """The numbers of these processes' sockets."""
    return {found[1] for pid in pids for link in _links(pid) if (found := _SOCKET.fullmatch(link))}


def open_sockets() -> set[str]:
    """The numbers of all sockets of the machine, whatever process has them open."""
    found: set[str] = set()
    for table, column in (("tcp", 9), ("tcp6", 9), ("udp", 9), ("udp6", 9), ("unix", 6)):
        rows = [line.split() for line in _read(f"/proc/net/{table}").decode(errors="replace").splitlines()[1:]]
        found |= {row[column] for row in rows if len(row) > column}
    return found - {"0"}


def start_time(pid: int) -> str:
    """Start time of a process in the kernel's clock ticks; empty if it has ended or is a zombie."""
    fields = _stat(pid)
    return "" if not fields or fields[0] == "Z" else fields[19]


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name: state, parent and so on."""
    return _read(f"/proc/{pid}/stat").decode(errors="replace").rpartition(")")[2].split()


def _links(pid: int) -> list[str]:
    try:
        return [os.readlink(entry.path) for entry in os.scandir(f"/proc/{pid}/fd")]
    except OSError:
        return []


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""
