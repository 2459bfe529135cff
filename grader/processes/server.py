"""The engine's main loop: hears what is wanted, gives each run a process of its own, and sees to it that each one ends.

A run that dies or falls silent is begun anew with the learner's code in a worker, where a crash or a stall costs the test it happens in.
"""

from __future__ import annotations

import contextlib
import io
import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, cast

from grader.execution.exit_reason import describe_exit
from grader.processes.job import Job, Lines, asked, decode, encode
from grader.processes.kit_version import Stamp, stamp

TOO_LONG = 900.0  # seconds for one run
QUESTION_SECONDS = 5.0  # within which whoever calls has to say what is wanted
SENDING_SECONDS = 1.0  # within which whoever asked has to take what is sent
LONGEST_ANSWER = 1 << 23  # bytes of one line
STUCK = "it did not end in time, and could not be interrupted"

Watched = socket.socket | io.RawIOBase


class Child(Protocol):
    """The process of one run."""

    sock: socket.socket  # its messages come from here
    patience: float  # seconds within which it must first be heard of

    def end(self, hurry: bool) -> int | None:
        """Tell how it ended, and end what it started. One that goes on is killed, at once or after a moment, and is told as None."""


@dataclass
class Run:
    job: Job
    client: socket.socket
    child: Child
    until: float  # it must be heard of before
    lines: Lines = field(default_factory=Lines)
    began: float = field(default_factory=time.monotonic)


class Server:
    longest_question = 1 << 16  # bytes
    broke_off = "the run broke off, and once more in a process of its own: {}"

    def __init__(self, start: Callable[[Job], Child], token: str, idle: float, lifeline: io.RawIOBase | None = None) -> None:
        self.start, self.token, self.idle = start, token, idle
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.lifeline = lifeline  # closes when whoever wanted the engine is gone
        self.stamp: Stamp = stamp()
        self.selector = selectors.DefaultSelector()
        self.runs: list[Run] = []
        self.callers: dict[socket.socket, float] = {}  # who has not said yet what is wanted, and until when they may
        self.open = True

    @property
    def port(self) -> int:
        return self.listener.getsockname()[1]

    def serve(self) -> None:
        """Until nobody wants it any more: an hour without a question, or the lifeline cut."""
        self._watch(self.listener, self._accept)
        if self.lifeline:
            self._watch(self.lifeline, self._lifeline)
        wanted = time.monotonic()
        while self.open:
            for key, _ in self.selector.select(0.25 if self.runs or self.callers else min(self.idle, 60.0)):
                key.data()
            now = time.monotonic()
            if self.runs:
                wanted = now
            self.open = self.open and now - wanted < self.idle
            for run in [run for run in self.runs if now > run.until or now - run.began > TOO_LONG]:
                self._lost(run, STUCK)
            for caller in [caller for caller, until in self.callers.items() if now > until]:
                self._hang_up(caller)

    def close(self) -> None:
        """End every run, and hang up."""
        for run in list(self.runs):
            self._close(run)
        self.forget()

    def forget(self) -> None:
        """Let go of every descriptor; a process that has just been forked off wants none of them."""
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

    def _lifeline(self) -> None:
        self.open = self.lifeline is not None and bool(self.lifeline.read(1 << 12))

    # ---- questions

    def _accept(self) -> None:
        try:
            caller, _ = self.listener.accept()
        except OSError:  # it has gone already, or there are too many
            return
        caller.settimeout(SENDING_SECONDS)
        lines = Lines()
        self.callers[caller] = time.monotonic() + QUESTION_SECONDS
        self._watch(caller, lambda: self._asked(caller, lines))

    def _asked(self, caller: socket.socket, lines: Lines) -> None:
        piece = _piece(caller)
        whole = lines.add(piece)
        if not whole and piece and len(lines.rest) < self.longest_question:
            return
        job = self.understand(whole[0]) if whole else None
        if job is None:
            self._hang_up(caller)
        elif stamp() != self.stamp:
            self.open = False
            _tell(caller, stale=True)
            self._hang_up(caller)
        else:
            self.callers.pop(caller)
            _tell(caller, accepted=True)
            self._begin(job, caller)

    def understand(self, line: bytes) -> Any:
        """The job in a question, of the kind that this server takes; None where there is none."""
        return asked(line, self.token)

    def _begin(self, job: Job, client: socket.socket) -> None:
        try:
            child = self.start(job)
        except OSError as problem:
            _tell(client, trouble=f"the run could not be started: {(problem.strerror or str(problem)).lower()}")
            self._hang_up(client)
            return
        run = Run(job, client, child, time.monotonic() + child.patience)
        self.runs.append(run)
        self._watch(child.sock, lambda: self._said(run))
        self.selector.modify(client, selectors.EVENT_READ, lambda: self._client(run))

    def _client(self, run: Run) -> None:
        """It has nothing more to say but good-bye: a newer save, or a person who presses Control-C."""
        if run in self.runs and not _piece(run.client):
            self._close(run)

    # ---- answers

    def _said(self, run: Run) -> None:
        if run not in self.runs:
            return
        piece = _piece(run.child.sock)
        for line in run.lines.add(piece):
            match decode(line):
                case {"alive": int() | float() as seconds}:
                    run.until = time.monotonic() + seconds
                    continue
                case {"done": _} | {"trouble": _}:
                    _pass_on(run.client, line)
                    self._close(run)
                    return
            if not _pass_on(run.client, line):
                self._close(run)
                return
        if not piece or len(run.lines.rest) > LONGEST_ANSWER:
            self._lost(run)

    def _lost(self, run: Run, why: str = "") -> None:
        """Its process is gone, or has to go: begin anew where the code cannot take the tests with it."""
        status = self._end(run, hurry=bool(why))
        why = why or describe_exit(status)
        if run.job.in_worker:
            _tell(run.client, trouble=self.broke_off.format(why), lost=why, killed=status in (None, -9))
            self._hang_up(run.client)
            return
        _tell(run.client, again=why)
        self._begin(replace(run.job, in_worker=True), run.client)

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


def _pass_on(client: socket.socket, line: bytes) -> bool:
    try:
        client.sendall(line + b"\n")
    except OSError:
        return False
    return True


def _tell(client: socket.socket, **message: object) -> None:
    _pass_on(client, encode(message).rstrip(b"\n"))
