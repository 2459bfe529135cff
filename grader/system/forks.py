"""A function that runs in a copy of this process, which sends messages and can be killed.

Messages are pickled, so both sides must trust each other. The functions of `os` are bound here, because the learner's
code may replace them there.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Pipe
from os import _exit, fork, getpid
from typing import Any

from grader.system import process_tree
from grader.system.process_tree import PROCESS_BROKEN


class Fork:
    """A copy of this process that runs `work`, and ends with it or with this process."""

    def __init__(self, work: Callable[[Fork], None]) -> None:
        """`work` gets the other end, whose messages this one receives."""
        self.line, theirs = Pipe()
        parent, self.pid = getpid(), fork()
        if self.pid:
            theirs.close()
            return
        try:
            process_tree.die_with_parent(parent)
            self.line.close()
            self.line = theirs
            work(self)
            _exit(0)
        finally:
            _exit(PROCESS_BROKEN)

    def send(self, message: object) -> None:
        self.line.send_bytes(pickle.dumps(message))  # `Connection.send` would have torch share a tensor's memory

    def receive(self) -> Any:
        """The next message; EOFError if the other side has ended."""
        try:
            return pickle.loads(self.line.recv_bytes())
        except OSError:
            raise EOFError from None

    def end(self, seconds: float = 0.0) -> int | None:
        """End it, with everything in its group. Return how it ended by itself within so many seconds (negative: the
        signal), None if it had to be killed."""
        with suppress(OSError):
            self.line.close()
        return process_tree.end_fork(self.pid, seconds)
