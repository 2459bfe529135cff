"""A run in a process forked from the server, which has everything loaded: ready in a few milliseconds.

After a run, the next process is forked in advance, while the learner thinks: it copies the pages of memory that the
last run wrote to, and waits.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Callable, Iterator
from os import _exit
from pathlib import Path

from grader.execution.call_watch import CallWatch, SharedDeadline
from grader.processes.job import CheckJob, Job, request, requested
from grader.processes.service import Service
from grader.system import process_tree
from grader.system.exit_reason import PROCESS_BROKEN
from grader.system.page_copies import PageList, copy_pages, own_pages
from grader.system.streams import redirect_to_null

MOST_PROCESSES = 4  # that work on one run
WAITING = "headway waits"  # at most 15 bytes
COMM = Path("/proc/self/comm")


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
        self.prepared_for_more = False  # whether `after_first_run` was called too
        self.waiting: ForkedProcess | None = None  # a process that was forked in advance, for this exercise
        self.pages = PageList()  # that a run of this exercise has written to

    def start(self, job: Job) -> ForkedProcess:
        waiting, self.waiting = self.waiting, None
        if waiting and isinstance(job, CheckJob) and job.name == self.prepared and _send(waiting, job):
            return waiting
        if waiting:
            _close(waiting)
        self._prepare(job)
        return self._fork(lambda sock, deadline: self._run(job, sock, deadline))

    def fork_in_advance(self, job: Job) -> None:
        """Call this after a run: fork the process for a further run of its exercise."""
        if self.waiting or not isinstance(job, CheckJob) or job.name != self.prepared:
            return
        if not self.prepared_for_more:
            _try(self.service.after_first_run, job)
            self.prepared_for_more = True
        self.waiting = self._fork(self._wait)

    def close(self) -> None:
        if self.waiting:
            _close(self.waiting)
            self.waiting = None

    def _prepare(self, job: Job) -> None:
        name = job.name if isinstance(job, CheckJob) else ""
        if name != self.prepared:
            self.pages.clear()
            _try(self.service.before_first_run, job)
            self.prepared, self.prepared_for_more = name, False

    def _wait(self, sock: socket.socket, deadline: SharedDeadline) -> None:
        with _named(WAITING):
            copy_pages(self.pages.read())
            job = requested(sock.makefile("rb", buffering=0).readline(), [CheckJob])
        if job is None:  # the server has ended, or the next run is another exercise's
            _exit(0)
        self.run(job, sock, deadline)

    def _run(self, job: Job, sock: socket.socket, deadline: SharedDeadline) -> None:
        self.run(job, sock, deadline)
        if isinstance(job, CheckJob) and not self.pages.read():
            self.pages.store(own_pages())

    def _fork(self, work: Callable[[socket.socket, SharedDeadline], None]) -> ForkedProcess:
        """A new process that does this work, with its socket and the memory for its deadlines, and ends."""
        deadline = SharedDeadline(MOST_PROCESSES)
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
            work(theirs, deadline)
            _exit(0)
        finally:
            _exit(PROCESS_BROKEN)


def _try(prepare: Callable[[Job], None], job: Job) -> None:
    """Preparing only saves time: what cannot be prepared, as for an exercise that does not exist, is reported by the
    run."""
    with contextlib.suppress(Exception):
        prepare(job)


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    """In this context, lists of processes such as `ps` show this name for the process (on Linux)."""
    before = name
    with contextlib.suppress(OSError):
        before = COMM.read_text(encoding="utf-8", errors="replace")
        COMM.write_text(name)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            COMM.write_text(before.strip())


def _send(process: ForkedProcess, job: Job) -> bool:
    """Give its job to a process that waits; whether it can do it."""
    try:
        if os.waitpid(process.pid, os.WNOHANG) != (0, 0):  # it has ended
            process_tree.own_children.discard(process.pid)
            process.sock.close()
            return False
        process.sock.sendall(request(job))
    except OSError:
        return False
    return True


def _close(process: ForkedProcess) -> None:
    process.sock.close()
    process.end(hurry=True)
