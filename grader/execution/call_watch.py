"""Notices from outside of the interpreter that a call in process does not return.

The time limit of a call in process is an exception (in_process.py), and Python raises it between two of its
instructions: a function in C that does not return is never interrupted. Only the end of its process ends it.
"""

from __future__ import annotations

import math
import mmap
import struct
import time
from contextlib import suppress
from faulthandler import cancel_dump_traceback_later, dump_traceback_later

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
    """Ends this process when a call is late, after writing a text that begins with `stuck_line.BEGINNING` to a file: a
    native thread of faulthandler does it.

    For processes that share no memory with their server. Starting that thread takes 50 us a call.
    """

    def __init__(self, file: int) -> None:
        self.file = file

    def begin(self, seconds: float) -> None:
        # no thread can be started: then the parent's own, longer deadline applies
        with suppress(RuntimeError, OSError, ValueError):
            dump_traceback_later(seconds + GRACE_SECONDS, file=self.file, exit=True)

    def end(self) -> None:
        cancel_dump_traceback_later()
