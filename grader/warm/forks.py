"""A run in a process forked from the engine, which has everything loaded: ready in a few milliseconds."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable

from .job import Job
from .limits import limit_this_process

PATIENCE = 0.2  # seconds: a socket closes a moment before its process has ended


class InRun(BaseException):
    """Raised in the new process, out of the engine's main loop: this is the job, and here is whom to tell."""

    def __init__(self, job: Job, sock: socket.socket) -> None:
        super().__init__(job.name)
        self.job, self.sock = job, sock


class Fork:
    def __init__(self, sock: socket.socket, pid: int) -> None:
        self.sock, self.pid = sock, pid
        self.status: int | None = None

    def end(self) -> int:
        if self.status is None:
            deadline = time.monotonic() + PATIENCE
            finished, status = os.waitpid(self.pid, os.WNOHANG)
            while not finished and time.monotonic() < deadline:
                time.sleep(0.002)
                finished, status = os.waitpid(self.pid, os.WNOHANG)
            self._kill_group()
            if not finished:
                status = os.waitpid(self.pid, 0)[1]
            self.status = os.waitstatus_to_exitcode(status)
        return self.status

    def _kill_group(self) -> None:
        for kill in (os.killpg, os.kill):
            try:
                kill(self.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass


def start(job: Job, forget: Callable[[], None]) -> Fork:
    """Fork; `forget` lets go of what is the engine's, in the new process."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid:
        theirs.close()
        return Fork(ours, pid)
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    ours.close()
    forget()
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    os.close(null)
    limit_this_process()
    raise InRun(job, theirs)
