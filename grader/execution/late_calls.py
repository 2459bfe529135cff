"""Calls that do not end: how long a call may take, who notices that it is late, and the line that it was at.

The time limit of a call in process is an exception (in_process.py), and Python raises it between two of its
instructions: a function in C that does not return is never interrupted. Only the end of its process ends it.

The line is the head of the loop that the learner's code was in, else the line itself. Which line of a loop the time
limit interrupts is chance; its head is the same in each run, and it is what does not end.

In a worker, the interpreter's own watchdog (faulthandler) writes the stack to the socket at the time limit. It is a
native thread that needs no lock of the interpreter, so it also works while the code is inside C or waits for a lock.
The text comes from untrusted code's process: only a line number of one of its own files is taken from it, and the code
of that line is read from the grader's copy of the file.
"""

from __future__ import annotations

import ast
import contextlib
import math
import mmap
import os
import re
import socket
import struct
import time
from collections.abc import Iterable
from faulthandler import cancel_dump_traceback_later, dump_traceback_later
from functools import lru_cache
from typing import NamedTuple

from grader.course.chapter_source import ChapterSource
from grader.execution.errors import Where

_PROCESSORS = os.cpu_count() or 1
_USUAL_LOAD = 2.0  # processes for each processor that the limits have room for anyway
_MOST_SLOWDOWN = 6.0


def slowdown() -> float:
    """The factor by which a time limit is longer now: 1, or more where several times as many processes want to run as
    there are processors. Limits are on the clock, and on a busy machine right code takes longer by the clock."""
    if not hasattr(os, "getloadavg"):  # Windows
        return 1.0
    return min(_MOST_SLOWDOWN, max(1.0, os.getloadavg()[0] / _PROCESSORS / _USUAL_LOAD))



# ---- a call in process that does not return, noticed from outside of the interpreter

GRACE_SECONDS = 0.25  # after its time limit, for a call in Python to end with an exception
MOST_PROCESSES = 4  # that work on one run


class CallWatch:
    """Its methods are called when a call begins and when it has ended; these do nothing."""

    def move_to(self, place: int) -> None:
        """This process is a copy of the one that it was made for; the number tells it from other copies."""

    def begin(self, seconds: float) -> None:
        """A call begins, or continues, that may take so many seconds from now on."""

    def end(self) -> None:
        """The call has ended."""


class SharedDeadline(CallWatch):
    """The deadline of the call that a forked process runs, on the monotonic clock, in memory that its parent sees too;
    copies of that process have places of their own."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, 8 * MOST_PROCESSES)
        self.place = 0

    def move_to(self, place: int) -> None:
        self.place = 8 * place

    def begin(self, seconds: float) -> None:
        struct.pack_into("d", self.memory, self.place, time.monotonic() + seconds)

    def end(self) -> None:
        struct.pack_into("d", self.memory, self.place, 0.0)

    @property
    def is_over(self) -> bool:
        earliest = min((found for (found,) in struct.iter_unpack("d", self.memory) if found), default=math.inf)
        return time.monotonic() > earliest + GRACE_SECONDS


class ExitWhenLate(CallWatch):
    """Ends this process when a call is late, after writing a text that begins with `BEGINNING` to a file: a
    native thread of faulthandler does it.

    For processes that share no memory with their server. Starting that thread takes 50 us a call.
    """

    def __init__(self, file: int) -> None:
        self.file = file

    def begin(self, seconds: float) -> None:
        # no thread can be started: then the parent's own, longer deadline applies
        with contextlib.suppress(RuntimeError, OSError, ValueError):
            dump_traceback_later(seconds + GRACE_SECONDS, file=self.file, exit=True)

    def end(self) -> None:
        cancel_dump_traceback_later()


# ---- the line of the learner's file that a call was at when its time ran out

BEGINNING = b"Timeout (0:"  # of the text that faulthandler writes
# waiting for the text: for its beginning, for more of it, at most
FIRST_SECONDS, QUIET_SECONDS, ALL_SECONDS = 0.3, 0.05, 0.5
DELAY_SECONDS = 0.05  # after the limit, so that the other side has stopped waiting for an answer when the text comes
EARLY_SECONDS = 0.02  # a stack may come earlier by this: so quick requests in a row need not each order their own
MOST_BYTES = 1 << 18
MOST_FRAMES = 20  # of the learner's own, in which a loop is looked for

_FRAME = re.compile(rb'^  File "([^"\n]{1,500})", line (\d{1,7}) in ', re.MULTILINE)


def write_stack_after(sock: socket.socket, seconds: float) -> None:
    """Just after so many seconds, write the stack of all threads of this process to the socket, unless `cancel_stack`
    comes first."""
    # no thread can be started; a closed socket: then no line is shown
    with contextlib.suppress(RuntimeError, OSError, ValueError):
        dump_traceback_later(max(seconds, 0.0) + DELAY_SECONDS, file=sock.fileno())


def cancel_stack() -> None:
    """After this, nothing is written: it waits for a text that has begun."""
    cancel_dump_traceback_later()


def read_stack(sock: socket.socket, beginning: bytes = b"") -> bytes:
    """The text of a process whose time is over; empty if none comes soon."""
    text, end = bytearray(beginning), time.monotonic() + ALL_SECONDS
    with contextlib.suppress(OSError):  # also its timeout: the text is complete
        while len(text) < MOST_BYTES and time.monotonic() < end:
            sock.settimeout(QUIET_SECONDS if text else FIRST_SECONDS)
            piece = sock.recv(1 << 16)
            if not piece:
                break
            text += piece
    return bytes(text)


def find_line(stack: bytes, sources: Iterable[ChapterSource]) -> Where | None:
    """The line in the oldest thread that runs one of these files: the main thread, unless another thread does all the
    work."""
    if not stack.startswith(BEGINNING):
        return None
    own = {source.filename.encode("ascii", "backslashreplace")[:500]: source for source in sources}
    for thread in reversed(re.split(rb"^(?:Current thread|Thread) 0x", stack, flags=re.MULTILINE)):
        frames = [
            Line(own[file].filename, own[file].text, int(number))
            for file, number in _FRAME.findall(thread)
            if file in own
        ]
        if frames:
            line = loop_or_line(frames)
            return (
                Where(line.file.replace("\\", "/").rpartition("/")[2], line.number, line.code) if line.exists else None
            )
    return None


class Line(NamedTuple):
    """A line of a file that a frame of the stack is at."""

    file: str
    text: str  # of the whole file
    number: int

    @property
    def exists(self) -> bool:
        return 1 <= self.number <= len(self.text.splitlines())

    @property
    def code(self) -> str:
        return self.text.splitlines()[self.number - 1].strip()[:160] if self.exists else ""


def loop_or_line(frames: list[Line]) -> Line:
    """Of the frames, innermost first: the head of the innermost `while` that runs, else of the innermost frame's
    outermost `for`, else the innermost line.

    A `while` comes first, also if it calls the function with the `for`: it is what ends only by its own condition.
    """
    first_for = None
    for frame in frames[:MOST_FRAMES]:
        loops = _loops_around(frame.text, frame.number)
        for loop in loops:
            if isinstance(loop, ast.While):
                return frame._replace(number=loop.lineno)
        if loops and first_for is None:
            first_for = frame._replace(number=loops[-1].lineno)
    return first_for or frames[0]


def _loops_around(text: str, number: int) -> list[ast.While | ast.For | ast.AsyncFor]:
    """The loops around a line within its function, innermost first; a line of a loop's `else` is not in the loop."""
    found: list[ast.While | ast.For | ast.AsyncFor] = []
    block = _statements(text)
    while statement := next(
        (each for each in block if each.lineno <= number <= (each.end_lineno or each.lineno)), None
    ):
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found = []
        elif isinstance(statement, ast.While | ast.For | ast.AsyncFor) and not (
            statement.orelse and number >= statement.orelse[0].lineno
        ):
            found.insert(0, statement)
        block = [inner for inner in ast.iter_child_nodes(statement) if isinstance(inner, ast.stmt)]
        block += [
            inner
            for part in ast.iter_child_nodes(statement)
            for inner in getattr(part, "body", [])
            if isinstance(part, ast.ExceptHandler | ast.match_case)
        ]
    return found


@lru_cache(maxsize=2)
def _statements(text: str) -> list[ast.stmt]:
    try:
        return ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
