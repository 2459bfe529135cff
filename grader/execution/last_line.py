"""Finds the line of the learner's file that a call was at when its time ran out.

In a worker, the interpreter's own watchdog (faulthandler) writes the stack to the socket at the time limit. It is a native thread that needs no
lock of the interpreter, so it also works while the code is inside C or waits for a lock. The text comes from untrusted code's process: only a
line number of one of its own files is taken from it, and the code of that line is read from the grader's copy of the file.
"""

from __future__ import annotations

import contextlib
import re
import socket
import time
from collections.abc import Iterable
from faulthandler import cancel_dump_traceback_later, dump_traceback_later

from grader.course.chapter_source import ChapterSource
from grader.execution.errors import Where

BEGINNING = b"Timeout (0:"  # of the text that faulthandler writes
FIRST_SECONDS, QUIET_SECONDS, ALL_SECONDS = 0.3, 0.05, 0.5  # waiting for the text: for its beginning, for more of it, at most
DELAY_SECONDS = 0.05  # after the limit, so that the other side has stopped waiting for an answer when the text comes
MOST_BYTES = 1 << 18

_FRAME = re.compile(rb'^  File "([^"\n]{1,500})", line (\d{1,7}) in ', re.MULTILINE)


def write_stack_after(sock: socket.socket, seconds: float) -> None:
    """Just after so many seconds, write the stack of all threads of this process to the socket, unless `cancel_stack` comes first."""
    with contextlib.suppress(RuntimeError, OSError, ValueError):  # no thread can be started; a closed socket: then no line is shown
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
    """The innermost line of these files in the oldest thread that runs one of them: the main thread, unless another thread does all the work."""
    if not stack.startswith(BEGINNING):
        return None
    own = {source.filename.encode("ascii", "backslashreplace")[:500]: source for source in sources}
    for thread in reversed(re.split(rb"^(?:Current thread|Thread) 0x", stack, flags=re.MULTILINE)):
        for file, number in _FRAME.findall(thread):
            if file in own:
                return _line_of(own[file], int(number))
    return None


def _line_of(source: ChapterSource, number: int) -> Where | None:
    lines = source.text.splitlines()
    if not 1 <= number <= len(lines):
        return None
    return Where(source.filename.replace("\\", "/").rpartition("/")[2], number, lines[number - 1].strip()[:160])
