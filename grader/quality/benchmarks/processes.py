"""What Linux tells of processes: who descends from whom, who is still there, what they use and hold, and which sockets are theirs."""

from __future__ import annotations

import os
import re
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_SOCKET = re.compile(r"socket:\[(\d+)\]")

Members = dict[int, str]  # process -> when it was born: a number may be given anew


def family(pid: int) -> Members:
    """Whatever descends from this process."""
    found: Members = {}
    new = [pid]
    while new:
        children = [child for parent in new for child in children_of(parent)]
        found |= {child: born(child) for child in children}
        new = children
    return found


def children_of(pid: int) -> list[int]:
    """Of all its threads; it may end while we look."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    return [int(child) for thread in threads for child in _read(f"/proc/{pid}/task/{thread}/children").split()]


def alive(members: Members) -> list[int]:
    """Those of them that still run; not zombies, and not others of the same number."""
    return [pid for pid, since in members.items() if since and born(pid) == since]


def called(pids: list[int], words: str) -> int:
    """The first of these processes whose command line holds these words and that is no bubblewrap around it; 0 where there is none."""
    for pid in pids:
        if words.encode() in _read(f"/proc/{pid}/cmdline") and b"bwrap" not in _read(f"/proc/{pid}/comm"):
            return pid
    return 0


def command_line(pid: int) -> str:
    return _read(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode(errors="replace").strip()


def memory(pid: int) -> tuple[float, float]:
    """Megabytes it holds, and its share of what it holds with others; NaN where nobody tells."""
    words = dict(re.findall(rb"^(Rss|Pss): +(\d+) kB", _read(f"/proc/{pid}/smaps_rollup"), re.MULTILINE))
    rss, pss = (int(words[key]) / 1024 if key in words else float("nan") for key in (b"Rss", b"Pss"))
    return rss, pss


def processor(pid: int) -> float:
    """Seconds of the processors that it has used, and those of its children that have ended; 0 where nobody tells."""
    return sum(map(int, _stat(pid)[11:15])) / _TICKS


def descriptors(pid: int) -> int:
    return len(_links(pid))


def sockets(pids: list[int]) -> set[str]:
    """The numbers of the sockets that these processes hold."""
    return {found[1] for pid in pids for link in _links(pid) if (found := _SOCKET.fullmatch(link))}


def open_sockets() -> set[str]:
    """The numbers of all sockets of the machine, whoever holds them."""
    found: set[str] = set()
    for table, column in (("tcp", 9), ("tcp6", 9), ("udp", 9), ("udp6", 9), ("unix", 6)):
        rows = [line.split() for line in _read(f"/proc/net/{table}").decode(errors="replace").splitlines()[1:]]
        found |= {row[column] for row in rows if len(row) > column}
    return found - {"0"}


def born(pid: int) -> str:
    """When it began, in the kernel's own count. Empty for one that is gone, or a zombie."""
    fields = _stat(pid)
    return "" if not fields or fields[0] == "Z" else fields[19]


def _stat(pid: int) -> list[str]:
    """What /proc/PID/stat says after the name: its state, its parent and so on."""
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
