"""The engine's main loop: hears what is wanted, gives each run a process of its own, and sees to it that each one ends.

A run that dies or falls silent is begun anew with the learner's code in a worker, where a crash or a stall costs the test it happens in.
"""

from __future__ import annotations

import contextlib
import hmac
import io
import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from ..door.ending import in_words
from .job import Job, Lines, decode, encode
from .kit import Stamp, stamp

SILENCE = 13.0  # seconds without a sign of life, after which a run is stuck in native code; its own limits are below this
TOO_LONG = 300.0  # seconds for one run
LONGEST_QUESTION = 1 << 16


class Child(Protocol):
    """The process of one run."""

    sock: socket.socket  # its messages come from here

    def end(self) -> int:
        """Kill it and what it started, if it has not ended, and tell how it ended."""


@dataclass
class Run:
    job: Job
    client: socket.socket
    child: Child
    lines: Lines = field(default_factory=Lines)
    began: float = field(default_factory=time.monotonic)
    heard: float = field(default_factory=time.monotonic)
    done: bool = False


class Server:
    def __init__(self, start: Callable[[Job], Child], token: str, idle: float, lifeline: io.RawIOBase | None = None) -> None:
        self.start, self.token, self.idle = start, token, idle
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.lifeline = lifeline  # closes when whoever wanted the engine is gone
        self.stamp: Stamp = stamp()
        self.selector = selectors.DefaultSelector()
        self.runs: list[Run] = []
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
            for key, _ in self.selector.select(0.25 if self.runs else min(self.idle, 60.0)):
                key.data()
            now = time.monotonic()
            if self.runs:
                wanted = now
            self.open = self.open and now - wanted < self.idle
            for run in list(self.runs):
                if now - run.heard > SILENCE or now - run.began > TOO_LONG:
                    self._lost(run, "it did not end in time")

    def close(self) -> None:
        """End every run, and hang up."""
        for run in list(self.runs):
            self._close(run)
        self.forget()

    def forget(self) -> None:
        """Let go of every descriptor; a process that has just been forked off wants none of them."""
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()
        self.selector.close()

    def _watch(self, sock: socket.socket, act: Callable[[], None]) -> None:
        self.selector.register(sock, selectors.EVENT_READ, act)

    def _unwatch(self, sock: socket.socket) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self.selector.unregister(sock)
        sock.close()

    def _lifeline(self) -> None:
        self.open = bool(self.lifeline.read(1 << 12))

    # ---- questions

    def _accept(self) -> None:
        client, _ = self.listener.accept()
        client.settimeout(5.0)
        lines = Lines()
        self._watch(client, lambda: self._asked(client, lines))

    def _asked(self, client: socket.socket, lines: Lines) -> None:
        piece = _piece(client)
        whole = lines.add(piece)
        if not whole and piece and len(lines.rest) < LONGEST_QUESTION:
            return
        self.selector.unregister(client)
        question = decode(whole[0]) if whole else {}
        if not hmac.compare_digest(str(question.get("token", "")).encode(), self.token.encode()):
            client.close()
            return
        if stamp() != self.stamp:
            self.open = False
            _tell(client, stale=True)
            client.close()
            return
        self._begin(Job(**question["job"]), client)

    def _begin(self, job: Job, client: socket.socket) -> None:
        try:
            child = self.start(job)
        except OSError as problem:
            _tell(client, trouble=f"the run could not be started: {(problem.strerror or str(problem)).lower()}")
            client.close()
            return
        run = Run(job, client, child)
        self.runs.append(run)
        self._watch(child.sock, lambda: self._said(run))
        self._watch(client, lambda: self._client(run))

    def _client(self, run: Run) -> None:
        """It has nothing more to say but good-bye: a newer save, or a person who presses Control-C."""
        if run in self.runs and not _piece(run.client):
            self._close(run)

    # ---- answers

    def _said(self, run: Run) -> None:
        if run not in self.runs:
            return
        piece = _piece(run.child.sock)
        run.heard = time.monotonic()
        for line in run.lines.add(piece):
            message = decode(line)
            run.done = run.done or "done" in message
            if "alive" not in message and not _pass_on(run.client, line):
                self._close(run)
                return
        if run.done:
            self._close(run)
        elif not piece:
            self._lost(run, "")

    def _lost(self, run: Run, why: str) -> None:
        """Its process is gone, or has to go: begin anew where the code cannot take the tests with it."""
        self._unwatch(run.child.sock)
        status = run.child.end()
        why = why or in_words(status)
        self.runs.remove(run)
        if run.job.door == "worker":
            _tell(run.client, trouble=f"the run broke off, and once more in a process of its own: {why}")
            self._unwatch(run.client)
            return
        self.selector.unregister(run.client)
        _tell(run.client, again=why)
        self._begin(replace(run.job, door="worker"), run.client)

    def _close(self, run: Run) -> None:
        self._unwatch(run.child.sock)
        self._unwatch(run.client)
        run.child.end()
        if run in self.runs:
            self.runs.remove(run)


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
