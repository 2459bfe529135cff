"""The server's main loop: accepts jobs, runs each in a separate process, forwards its messages, and ends it.

A run whose process crashes or exceeds its deadline is started once more as `Job.after_crash` says. The loop does not
depend on types of jobs; a `Service` does.
"""

from __future__ import annotations

import contextlib
import io
import os
import selectors
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import cast

from grader.course.syllabus import EXERCISES, REFERENCE, ROOT, SOLUTIONS, TESTS
from grader.execution.late_calls import BEGINNING
from grader.processes import kept_server
from grader.processes.job import Job, Lines, decode, encode, requested
from grader.processes.service import Child, Service, Starter
from grader.system.process_tree import describe_exit

REQUEST_SECONDS = 5.0  # for a caller to send its request
SENDING_SECONDS = 1.0  # for a client to receive what is sent
REST_SECONDS = 0.1  # after the last run; learners read for longer
LONGEST_ANSWER = 1 << 23  # bytes of one line
STUCK = "it did not end in time, and could not be interrupted"

Watched = socket.socket | io.RawIOBase


@dataclass
class Run:
    job: Job
    client: socket.socket
    child: Child
    deadline: float  # of its next message
    lines: Lines = field(default_factory=Lines)
    began: float = field(default_factory=time.monotonic)
    late: bool = False  # a call did not return


class Server:
    def __init__(self, service: Service, starter: Starter, token: str, lifeline: io.RawIOBase | None = None) -> None:
        self.service, self.starter, self.token = service, starter, token
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.lifeline = lifeline  # closes when the process that started the server has ended
        self.kit_times: FileTimes = read_kit_times()
        self.kit_read = time.monotonic()
        self.selector = selectors.DefaultSelector()
        self.runs: list[Run] = []
        self.callers: dict[socket.socket, float] = {}  # connections without a request yet -> the deadline for it
        self.rested = True  # nothing has happened since a moment after the last run
        self.open = True
        starter.close_in_fork = self._close_descriptors

    @property
    def port(self) -> int:
        return self.listener.getsockname()[1]

    def serve(self) -> None:
        """Serve until the lifeline closes, an idle hour has passed, or the kit has changed."""
        self._watch(self.listener, self._accept)
        if self.lifeline:
            self._watch(self.lifeline, self._read_lifeline)
        last_run = time.monotonic()
        while self.open:
            for act in self._due():
                act()
            now = time.monotonic()
            if self.runs:
                last_run = now
            self.open = self.open and now - last_run < self.service.idle_seconds
            if self.rested and self.service.stays_under:
                self.open = self.open and kept_server.is_this_one()

    def _due(self) -> Iterator[Callable[[], None]]:
        """What to do next; waits for an event or for a short time. A deadline counts only after all messages that have
        arrived."""
        busy, rested = bool(self.runs or self.callers), self.rested
        seconds = 0.25 if busy else 60.0 if rested else REST_SECONDS
        found = self.selector.select(min(seconds, self.service.idle_seconds))
        for key, _ in found:
            yield key.data
        self.rested = not busy and not found
        if self.rested and not rested:
            yield self.service.at_rest
        for run in [run for run in self.runs if run.child.late]:
            yield partial(self._late, run)
        now = time.monotonic()
        for run in [run for run in self.runs if now > run.deadline or now - run.began > self.service.run_seconds]:
            yield partial(self._crashed, run, STUCK)
        for caller in [caller for caller, deadline in self.callers.items() if now > deadline]:
            yield partial(self._hang_up, caller)

    def close(self) -> None:
        """End every run, and close every connection."""
        self.starter.close()
        for run in list(self.runs):
            self._close(run)
        self._close_descriptors()

    def _close_descriptors(self) -> None:
        for key in list(self.selector.get_map().values()):
            cast(Watched, key.fileobj).close()
        self.selector.close()

    def _watch(self, sock: Watched, act: Callable[[], None]) -> None:
        self.selector.register(sock, selectors.EVENT_READ, act)

    def _hang_up(self, sock: socket.socket) -> None:
        self.callers.pop(sock, None)
        with contextlib.suppress(KeyError, ValueError):
            self.selector.unregister(sock)
        sock.close()

    def _read_lifeline(self) -> None:
        try:
            self.open = self.lifeline is not None and bool(self.lifeline.read(1 << 12))
        except OSError:  # a process has ended, about which nothing can be read
            self.open = False

    # ---- requests

    def _accept(self) -> None:
        try:
            caller, _ = self.listener.accept()
        except OSError:  # the caller has gone already, or there are too many connections
            return
        caller.settimeout(SENDING_SECONDS)
        lines = Lines()
        self.callers[caller] = time.monotonic() + REQUEST_SECONDS
        self._watch(caller, lambda: self._read_request(caller, lines))

    def _read_request(self, caller: socket.socket, lines: Lines) -> None:
        """Read more of a request; when it is complete, check its token and its job, and start a run."""
        piece = _piece(caller)
        whole = lines.add(piece)
        if not whole and piece and len(lines.rest) < self.service.longest_request:
            return
        job = requested(whole[0], self.service.runners, self.token) if whole else None
        if job is None:
            self._hang_up(caller)
        elif self._kit_has_changed():
            self.open = False
            _send(caller, stale=True)
            self._hang_up(caller)
        else:
            self.callers.pop(caller)
            _send(caller, accepted=True)
            self._start(job, caller)

    def _kit_has_changed(self) -> bool:
        if time.monotonic() - self.kit_read < self.service.kit_seconds:
            return False
        self.kit_read = time.monotonic()
        return read_kit_times() != self.kit_times

    def _start(self, job: Job, client: socket.socket) -> None:
        try:
            self.service.before_start(job)
            child = self.starter.start(job)
        except OSError as problem:
            self.service.after_start()
            _send(client, trouble=f"the run could not be started: {(problem.strerror or str(problem)).lower()}")
            self._hang_up(client)
            return
        self.service.after_start()
        run = Run(job, client, child, time.monotonic() + child.first_message_seconds)
        self.runs.append(run)
        self._watch(child.sock, lambda: self._forward(run))
        self.selector.modify(client, selectors.EVENT_READ, lambda: self._read_client(run))

    def _read_client(self, run: Run) -> None:
        """A client sends nothing more. It closes the connection to stop the run: a newer save, or Control-C."""
        if run in self.runs and not _piece(run.client):
            self._close(run)

    # ---- messages

    def _forward(self, run: Run) -> None:
        """Send on what a run has written; after its last message, end its process and what that started."""
        if run not in self.runs:
            return
        piece = _piece(run.child.sock)
        for line in run.lines.add(piece):
            if line.startswith(BEGINNING):  # the stack follows
                self._late(run)
                return
            match decode(line):
                case {"alive": int() | float() as seconds}:
                    run.deadline = time.monotonic() + seconds
                    continue
                case {"done": _} | {"trouble": _}:
                    _send_line(run.client, line)
                    self._close(run)
                    return
            if not _send_line(run.client, line):
                self._close(run)
                return
        if not piece or len(run.lines.rest) > LONGEST_ANSWER:
            self._crashed(run)

    def _late(self, run: Run) -> None:
        run.late = True
        self._crashed(run)

    def _crashed(self, run: Run, why: str = "") -> None:
        """The run's process has ended, or must end: start it once more, if its job allows that."""
        if run not in self.runs:
            return
        status = self._end(run, hurry=bool(why) or run.late)
        why = why or (STUCK if run.late else describe_exit(status))
        next_job = run.job.after_crash(late=run.late)
        if next_job is None:
            _send(run.client, trouble=self.service.crashed.format(why), lost=why, killed=status in (None, -9))
            self._hang_up(run.client)
            return
        _send(run.client, again=why)
        self._start(next_job, run.client)

    def _close(self, run: Run) -> None:
        self._end(run, hurry=True)
        self._hang_up(run.client)

    def _end(self, run: Run, hurry: bool) -> int | None:
        self.runs.remove(run)
        self._hang_up(run.child.sock)
        return run.child.end(hurry)


def _piece(sock: socket.socket) -> bytes:
    try:
        return sock.recv(1 << 16)
    except OSError:
        return b""


def _send_line(client: socket.socket, line: bytes) -> bool:
    try:
        client.sendall(line + b"\n")
    except OSError:
        return False
    return True


def _send(client: socket.socket, **message: object) -> None:
    _send_line(client, encode(message).rstrip(b"\n"))


FileTimes = dict[str, tuple[int, int]]


def read_kit_times() -> FileTimes:
    """Modification time and size of each file that a server loads."""
    found: FileTimes = {}
    for folder in (ROOT / "grader", SOLUTIONS, REFERENCE, TESTS):
        for place, folders, names in os.walk(folder):
            folders[:] = [
                name
                for name in folders
                if name not in ("__pycache__", "variants") and Path(place, name) != ROOT / "grader" / "tests"
            ]
            for name in names:
                if name.endswith((".py", ".toml", ".sealed", ".mistakes")):
                    _note(found, os.path.join(place, name))
    for path in (EXERCISES / "syllabus.toml", ROOT / "pyproject.toml", sys.executable):
        _note(found, str(path))
    return found


def _note(found: FileTimes, path: str) -> None:
    try:
        status = os.stat(path)
    except OSError:
        return
    found[path] = (status.st_mtime_ns, status.st_size)
