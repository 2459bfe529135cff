"""`headway watch` on a real terminal: what a person would see and press."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pexpect
from kit_copy import Kit

ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[()][A-Z0-9]|[=>78])")
SECONDS = 60  # for anything to appear, also on a busy machine

# bodies of softmax: as in the stub; right; the sum is that of the whole tensor, which is a known mistake
STUB = "    raise NotImplementedError"
RIGHT = """    largest = x.amax(dim, keepdim=True)
    exps = (x - largest.masked_fill(largest == -math.inf, 0.0)).exp()
    total = exps.sum(dim, keepdim=True)
    return exps / total.masked_fill(total == 0, 1.0)"""
WHOLE = RIGHT.replace("exps.sum(dim, keepdim=True)", "exps.sum()")


class Terminal:
    def __init__(self, kit: Kit, *arguments: str, columns: int = 90, rows: int = 40, shell: bool = False, **environment: str) -> None:
        self.kit = kit
        command = [sys.executable, "-m", "grader.cli", "watch", *arguments]
        run = ["bash", "--norc", "--noprofile", "-i"] if shell else command
        self.child = pexpect.spawn(
            run[0], run[1:], cwd=str(kit.root), env=kit.environment(**environment), dimensions=(rows, columns), encoding="utf-8", codec_errors="replace"
        )  # fmt: skip
        self.raw = ""
        if shell:
            self.child.send(shlex.join(command) + "\r")

    def press(self, *keys: str) -> None:
        for key in keys:
            self.child.send(key)
            time.sleep(0.05)

    @property
    def frame(self) -> str:
        """What is on the screen now: everything is drawn again each time."""
        with contextlib.suppress(pexpect.TIMEOUT, pexpect.EOF):
            while True:
                self.raw += self.child.read_nonblocking(1 << 16, 0.05)
        return ESCAPE.sub("", self.raw.rpartition("\x1b[H")[2]).replace("\r", "")

    def wait(self, wanted: str | Callable[[str], bool], seconds: float = SECONDS) -> str:
        """The screen, once it shows that text (however it is wrapped)."""
        shows = wanted if callable(wanted) else lambda frame: wanted in " ".join(frame.split())
        deadline = time.monotonic() + seconds
        while not shows(frame := self.frame):
            assert time.monotonic() < deadline, f"waited for {wanted!r} and saw:\n{frame}"
        return frame

    def verdict(self) -> str:
        """The screen, once nothing is running."""
        return self.wait(lambda frame: "verdict after" in frame and "testing" not in frame and "loading the tests" not in frame)

    def save(self, module: str, old: str, new: str) -> None:
        """Edit and save, and wait for the moment at which the run has started or ended."""
        before = self.frame
        self.kit.edit(module, old, new)
        self.wait(lambda frame: frame != before)

    @property
    def ended(self) -> int | None:
        """Its exit status, once it has one."""
        deadline = time.monotonic() + SECONDS
        while self.child.isalive() and time.monotonic() < deadline:
            _ = self.frame  # otherwise it would wait for a reader
        _ = self.frame
        return self.child.exitstatus


@contextlib.contextmanager
def watching(kit: Kit, *arguments: str, **options) -> Iterator[Terminal]:
    terminal = Terminal(kit, *arguments, **options)
    try:
        yield terminal
    finally:
        terminal.child.ptyproc.delayafterterminate = 1.0  # seconds for each of three signals: a busy machine is slow
        with contextlib.suppress(OSError):
            terminal.child.close(force=True)


def headway_processes(kit: Kit) -> list[str]:
    """The names of all processes that were started in this kit."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.readlink(place / "cwd").startswith(str(kit.root)) and (place / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                found.append((place / "comm").read_text().strip())
    return found


def nothing_remains(kit: Kit) -> bool:
    """No process: a server takes some moments to end."""
    deadline = time.monotonic() + SECONDS
    while headway_processes(kit):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
