"""A run in a process forked from the engine, which has everything loaded: ready in a few milliseconds."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from typing import Any

from grader.processes import process_tree
from grader.processes.limits import be_silent, limit_this_process

ENDING_SECONDS = 1.0  # a process that dies hangs up a moment before it is gone


class InRun(BaseException):
    """Raised in the new process, out of the engine's main loop: this is the job, and here is whom to tell."""

    def __init__(self, job: Any, sock: socket.socket) -> None:
        super().__init__()
        self.job, self.sock = job, sock


class Fork:
    patience = 15.0

    def __init__(self, sock: socket.socket, pid: int) -> None:
        self.sock, self.pid = sock, pid
        process_tree.runs.add(pid)

    def end(self, hurry: bool) -> int | None:
        deadline = time.monotonic() + (0 if hurry else ENDING_SECONDS)
        finished, status = os.waitpid(self.pid, os.WNOHANG)
        while not finished and time.monotonic() < deadline:
            time.sleep(0.002)
            finished, status = os.waitpid(self.pid, os.WNOHANG)
        process_tree.kill_group(self.pid)
        if not finished:
            os.waitpid(self.pid, 0)
        process_tree.runs.discard(self.pid)
        process_tree.kill_orphans()
        return os.waitstatus_to_exitcode(status) if finished else None


def start(job: Any, forget: Callable[[], None], limited: bool = True) -> Fork:
    """Fork; `forget` lets go of what is the engine's, in the new process. `limited`: is the learner's code going to run in it?"""
    ours, theirs = socket.socketpair()
    engine = os.getpid()
    pid = os.fork()
    if pid:
        theirs.close()
        return Fork(ours, pid)
    os.setsid()
    process_tree.end_with(engine)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    ours.close()
    forget()
    be_silent()
    if limited:
        limit_this_process()
    raise InRun(job, theirs)
