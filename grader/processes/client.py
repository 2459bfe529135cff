"""Sends jobs to a server, from a process that need not load torch: `headway check`, the watch, the class grader."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from grader.course.syllabus import ROOT
from grader.processes import kept_server
from grader.processes.job import Job, decode, moved_to_worker, read, request
from grader.processes.prestarted import python_process

CONNECT_SECONDS = 2.0
ACCEPT_SECONDS = 5.0
DOCTOR = "`headway doctor` may find the reason"


class NoServer(Exception):
    """No server accepts the job; the message is a sentence, or empty if there is nothing to report."""


class ServerLost(NoServer):
    """The server ended while it ran the learner's code, which may have ended it."""


@dataclass(frozen=True)
class Address:
    port: int
    token: str

    def ask(self, job: Job) -> socket.socket:
        """A socket from which messages come (`job.read`); closing it stops the run. NoServer if the job is not
        accepted."""
        try:
            sock = socket.create_connection(("127.0.0.1", self.port), CONNECT_SECONDS)
        except OSError:
            raise NoServer("") from None
        try:
            sock.settimeout(ACCEPT_SECONDS)
            sock.sendall(request(job, self.token))
            if "accepted" not in decode(_line(sock)):
                raise NoServer("")
            sock.settimeout(None)
        except BaseException as problem:
            sock.close()
            if isinstance(problem, OSError):
                raise NoServer("") from None
            raise
        return sock


def _line(sock: socket.socket) -> bytes:
    """The first line of an answer, and not a byte of what follows; truncated if it is longer than a server's lines."""
    line = b""
    while not line.endswith(b"\n") and len(line) < 100:
        piece = sock.recv(1)
        if not piece:
            break
        line += piece
    return line


class ServerProcess:
    """A server that this process starts. It lives as long as this process, or until `end`."""

    def __init__(self, *options: str, module: str = "grader.processes.check_server", **environment: str) -> None:
        self.process = python_process(module, *options, cwd=ROOT, stdout=subprocess.PIPE, environment=environment)
        assert self.process.stdin and self.process.stdout
        self.lifeline, self.said = self.process.stdin, self.process.stdout
        self.known: Address | None = None

    def address(self) -> Address:
        """The server's address; waits until it is ready. NoServer, with the reason, if it does not start."""
        if self.known is None:
            said = decode(self.said.readline())
            if "port" not in said:
                raise NoServer(
                    said.get("trouble")
                    or f"the server that runs the tests did not start (status {self.process.wait()}); {DOCTOR}"
                )
            self.known = Address(**said)
        return self.known

    def answers(self, job: Job, tries: int = 1) -> Iterator[dict[str, Any]]:
        """The messages of one run. A very busy server may refuse the connection, so this tries several times before
        NoServer."""
        for left in reversed(range(tries)):
            try:
                sock = self.address().ask(job)
                break
            except NoServer:
                if not left or not self.alive:
                    raise
        with sock:
            yield from read(sock)

    @property
    def ready(self) -> bool:
        return self.known is not None

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def end(self) -> None:
        """Close its lifeline, and wait until it has ended all processes that it started."""
        with contextlib.suppress(OSError):
            self.lifeline.close()
        try:
            self.process.wait(5 if self.ready else 0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.said.close()


class AnyServer:
    """A server that this object starts when it is first needed, and again if it has ended or the kit has changed."""

    def __init__(self) -> None:
        self.own: ServerProcess | None = None

    def answers(self, job: Job) -> Iterator[dict[str, Any]]:
        """The messages of one run; NoServer if no server starts. If the server ends during the run, the code runs once
        more in a worker of another one."""
        try:
            yield from self._whole_run(job)
        except ServerLost as problem:
            yield {"restarted": f"{problem}; testing again in a process of its own"}
            self.close()
            yield from self._whole_run(moved_to_worker(job) or job)

    def _whole_run(self, job: Job) -> Iterator[dict[str, Any]]:
        """The messages up to the last one of a run; ServerLost if they end before."""
        for message in self._messages(job):
            yield message
            if message.keys() & {"done", "trouble"}:
                return
        raise ServerLost("the server that ran the tests has ended, perhaps because of your code")

    def _messages(self, job: Job) -> Iterator[dict[str, Any]]:
        if self.own is not None:
            try:
                yield from self.own.answers(job)
                return
            except NoServer:  # before the first message
                self.close()
        else:
            for address in _kept_servers():
                with contextlib.suppress(NoServer), address.ask(job) as sock:
                    yield from read(sock)
                    return
        if self.own is None:
            self.own = ServerProcess("--once")
        yield from self.own.answers(job)

    def close(self) -> None:
        if self.own is not None:
            self.own.end()
            self.own = None


def _kept_servers() -> Iterator[Address]:
    """The server that stays for this folder, if one runs. A new one, if none runs or if that one refuses the job."""
    if not kept_server.is_possible():
        return
    conditions = kept_server.conditions()
    if kept := kept_server.find():
        if kept.conditions != conditions:  # another terminal may be waiting for it
            return
        yield Address(kept.port, kept.token)
        kept_server.stop()
    with contextlib.suppress(NoServer):
        with kept_server.only_one_starts() as alone:
            if not alone or kept_server.find():
                return
            stay = ["--stay", str(os.getsid(0)), conditions, "--idle", str(kept_server.IDLE_SECONDS)]
            address = ServerProcess(*stay).address()
        yield address
