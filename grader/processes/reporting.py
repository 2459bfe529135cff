"""How a run in a process of its own is heard: what pytest prints, what else there is to say, and for how long nobody need worry."""

from __future__ import annotations

import io
import socket
import time
from os import _exit, getpid  # what the learner's code puts in their places is no concern of ours
from typing import TextIO, cast

import pytest
from grader.execution.exit_reason import CUT_OFF
from grader.processes.job import encode

MARGIN = 2.0  # seconds that a run is given beyond what it has said it may take


class Report(io.TextIOBase):
    """Where a run prints, and says how it goes."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock, self.pid = sock, getpid()
        self._pending: list[str] = []
        self._until = 0.0  # so long nobody worries

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

    def alive(self, seconds: float) -> None:
        """So long it may take until more is heard. Said when it is time to, and not at each of a thousand calls."""
        least = time.monotonic() + seconds + MARGIN
        if not least <= self._until <= least + MARGIN:
            self._until = least + MARGIN
            self.message(alive=seconds + 2 * MARGIN)

    def _send(self, line: bytes) -> None:
        if getpid() != self.pid:
            _exit(0)  # a copy that the learner's code has forked off has nothing to say
        try:
            self.sock.sendall(line)
        except OSError:
            _exit(CUT_OFF)


def capture_anew(config: pytest.Config) -> None:
    """What is printed goes to files of this process alone; those it was born with are shared with its whole family."""
    capture = config.pluginmanager.get_plugin("capturemanager")
    assert capture is not None
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture(in_=True)


def reporter_on(config: pytest.Config, file: io.TextIOBase, columns: int = 80, colour: bool = False) -> pytest.TerminalReporter:
    """pytest's own reporter, writing to whoever asked."""
    config.pluginmanager.unregister(name="terminalreporter")
    reporter = pytest.TerminalReporter(config, cast(TextIO, file))
    reporter._tw.hasmarkup = reporter.hasmarkup = colour
    reporter._tw.fullwidth = reporter._screen_width = columns
    config.pluginmanager.register(reporter, "terminalreporter")
    return reporter
