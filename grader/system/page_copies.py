"""Pages of memory that a forked process copies when it writes to them.

After a fork, parent and child share their memory until one of them writes. Python writes to every object that it uses,
to count references, so a forked process copies thousands of pages while it works: a third of the time of a short run. A
process that waits for its work can copy them before. Only on Linux; elsewhere nothing is found, and nothing is copied.
"""

from __future__ import annotations

import contextlib
import mmap
from array import array
from collections.abc import Iterator

from grader.system import kernel

PAGE = mmap.PAGESIZE
GAP = 2 * PAGE  # shorter gaps between ranges are copied too, which is quicker than one more system call
MOST = 1 << 28  # bytes to copy ahead
_PRESENT, _EXCLUSIVE = 1 << 63, 1 << 56  # bits of /proc/PID/pagemap

Range = tuple[int, int]  # addresses: the first, and the first behind it


class PageList:
    """A list of ranges in memory that forked processes share with the process that made it."""

    def __init__(self, most: int = 1 << 14) -> None:
        self.memory = mmap.mmap(-1, 8 + 16 * most)
        self.most = most

    def clear(self) -> None:
        self.memory[:8] = bytes(8)

    def store(self, ranges: list[Range]) -> None:
        data = array("Q", [address for pair in ranges[: self.most] for address in pair]).tobytes()
        self.memory[8 : 8 + len(data)] = data
        self.memory[:8] = (len(data) // 16).to_bytes(8, "little")

    def read(self) -> list[Range]:
        count = min(int.from_bytes(self.memory[:8], "little"), self.most)
        addresses = array("Q", self.memory[8 : 8 + 16 * count])
        return list(zip(addresses[::2], addresses[1::2]))


def own_pages() -> list[Range]:
    """The pages that this process shares with no other, because it has written to them since it was forked."""
    found: list[Range] = []
    with contextlib.suppress(OSError, ValueError), open("/proc/self/pagemap", "rb", buffering=0) as pagemap:
        for start, end in _private_memory():
            pagemap.seek(start // PAGE * 8)
            entries = array("Q", pagemap.read((end - start) // PAGE * 8))
            for place, entry in enumerate(entries):
                if entry & _PRESENT and entry & _EXCLUSIVE:
                    page = start + place * PAGE
                    if found and page - found[-1][1] <= GAP and found[-1][0] >= start:
                        found[-1] = found[-1][0], page + PAGE
                    else:
                        found.append((page, page + PAGE))
    return found


def copy_pages(ranges: list[Range]) -> None:
    """Copy these pages now, if they are shared."""
    total = 0
    for start, end in ranges:
        total += end - start
        if total > MOST:
            return
        kernel.populate_for_writing(start, end - start)


def _private_memory() -> Iterator[Range]:
    """The regions of this process's heap."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        for line in file:
            fields = line.split()
            if fields[1] == "rw-p" and (len(fields) < 6 or fields[5] == "[heap]"):
                start, _, end = fields[0].partition("-")
                yield int(start, 16), int(end, 16)
