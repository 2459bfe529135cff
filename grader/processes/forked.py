"""A run in a process forked from the server, which has everything loaded: ready in a few milliseconds."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Callable
from os import _exit

from grader.execution.late_calls import CallWatch, SharedDeadline
from grader.processes.job import CheckJob, Job
from grader.processes.service import Service
from grader.system import process_tree
from grader.system.process_tree import PROCESS_BROKEN, redirect_to_null


class ForkedProcess:
    first_message_seconds = 15.0

    def __init__(self, sock: socket.socket, pid: int, deadline: SharedDeadline) -> None:
        self.sock, self.pid, self.deadline = sock, pid, deadline
        process_tree.own_children.add(pid)

    @property
    def late(self) -> bool:
        return self.deadline.is_over

    def end(self, hurry: bool) -> int | None:
        status = process_tree.end_fork(self.pid, 0.0 if hurry else process_tree.ENDING_SECONDS)
        process_tree.own_children.discard(self.pid)
        process_tree.kill_orphans()
        return status


class ForkingStarter:
    """Forks a process for each run."""

    def __init__(self, service: Service, run: Callable[[Job, socket.socket, CallWatch], None]) -> None:
        """`run` does a job in its process."""
        self.service, self.run = service, run
        self.close_in_fork: Callable[[], None] = lambda: None  # closes what only the server uses
        self.prepared = ""  # the exercise that this process is prepared for

    def start(self, job: Job) -> ForkedProcess:
        """A new process that does this job, and ends."""
        self._prepare(job)
        deadline = SharedDeadline()
        ours, theirs = socket.socketpair()
        server = os.getpid()
        pid = os.fork()
        if pid:
            theirs.close()
            return ForkedProcess(ours, pid, deadline)
        try:
            os.setsid()
            process_tree.die_with_parent(server)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            ours.close()
            self.close_in_fork()
            redirect_to_null()
            self.run(job, theirs, deadline)
            _exit(0)
        finally:
            _exit(PROCESS_BROKEN)

    def _prepare(self, job: Job) -> None:
        """Preparing only saves time: what cannot be prepared, as for an exercise that does not exist, is reported by
        the run."""
        name = job.name if isinstance(job, CheckJob) else ""
        if name != self.prepared:
            self.prepared = name
            with contextlib.suppress(Exception):
                self.service.before_first_run(job)

    def close(self) -> None:
        """No process waits for a run."""
