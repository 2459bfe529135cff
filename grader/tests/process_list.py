"""What runs on this machine, read from /proc. A process can end between any two questions, so none of these raises an error."""

from __future__ import annotations

from pathlib import Path


def command_line(pid: int | str) -> bytes:
    """The arguments that a process was started with; nothing of one that has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def process_name(pid: int) -> str:
    """The name of a process in a list of processes; nothing of one that has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def children(pid: int) -> list[int]:
    """The processes that this one started, without dead ones."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            state = stat_of(int(folder.name))
            if state and state[0] not in "ZX" and state[1] == pid:
                found.append(int(folder.name))
    return found


def stat_of(pid: int) -> tuple[str, int] | None:
    """State and parent of a process; None if it does not exist."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return fields[0], int(fields[1])


def alive(pid: int) -> bool:
    """Whether a process still runs; one that has ended and only waits to be reaped does not."""
    state = stat_of(pid)
    return state is not None and state[0] not in "ZX"
