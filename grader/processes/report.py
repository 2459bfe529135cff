"""Messages of a run to its server: what it prints, its results, and how long it may be silent."""

from __future__ import annotations

import io
import socket
import time
from os import _exit, getpid  # the learner's code may replace them in os
from typing import NoReturn

from grader.execution.late_calls import CallWatch
from grader.processes.job import encode
from grader.system.process_tree import CONNECTION_CLOSED

CONCLUDING_SECONDS = 60.0  # for the diagnosis, after all tests
MARGIN_SECONDS = 2.0  # that a run gets in addition to the requested ones


class Report(io.TextIOBase):
    """The file that a run prints to; it sends the messages of job.py."""

    def __init__(self, sock: socket.socket, call_watch: CallWatch) -> None:
        self.sock, self.pid, self.call_watch = sock, getpid(), call_watch
        self._pending: list[str] = []
        self._deadline = 0.0  # the deadline that was sent to the server

    def write(self, text: str) -> int:
        self._pending.append(text)
        return len(text)

    def flush(self) -> None:
        if self._pending:
            text, self._pending = "".join(self._pending), []
            self._send(encode({"text": text}))

    def message(self, **message: object) -> None:
        self.flush()
        self._send(encode(message))

    def finish(self, **message: object) -> NoReturn:
        """Send the last message, and end this process."""
        self.message(**message)
        self.message(done=0)
        _exit(0)

    def extend_deadline(self, seconds: float) -> None:
        """Let the server wait for so many seconds before it considers this run stuck. Sent when needed, not for each of
        a thousand calls."""
        least = time.monotonic() + seconds + MARGIN_SECONDS
        if not least <= self._deadline <= least + MARGIN_SECONDS:
            self._deadline = least + MARGIN_SECONDS
            self.message(alive=seconds + 2 * MARGIN_SECONDS)

    def _send(self, line: bytes) -> None:
        if getpid() != self.pid:
            _exit(0)  # the learner's code forked; the copy must not report
        try:
            self.sock.sendall(line)
        except OSError:
            _exit(CONNECTION_CLOSED)
