"""A run in a process forked from the engine, which has everything loaded: ready in a few milliseconds."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from typing import Any

from grader.processes.limits import limit_this_process
from grader.system import process_tree
from grader.system.streams import redirect_to_null


class InRun(BaseException):
    """Raised in the new process, out of the engine's main loop: this is the job, and here is whom to tell."""

    def __init__(self, job: Any, sock: socket.socket) -> None:
        super().__init__()
        self.job, self.sock = job, sock


class Fork:
    patience = 15.0

    def __init__(self, sock: socket.socket, pid: int) -> None:
        self.sock, self.pid = sock, pid
        process_tree.own_children.add(pid)

    def end(self, hurry: bool) -> int | None:
        status = process_tree.end_fork(self.pid, 0.0 if hurry else process_tree.ENDING_SECONDS)
        process_tree.own_children.discard(self.pid)
        process_tree.kill_orphans()
        return status


def start(job: Any, forget: Callable[[], None], limited: bool = True) -> Fork:
    """Fork; `forget` lets go of what is the engine's, in the new process. `limited`: is the learner's code going to run in it?"""
    ours, theirs = socket.socketpair()
    engine = os.getpid()
    pid = os.fork()
    if pid:
        theirs.close()
        return Fork(ours, pid)
    os.setsid()
    process_tree.die_with_parent(engine)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    ours.close()
    forget()
    redirect_to_null()
    if limited:
        limit_this_process()
    raise InRun(job, theirs)
