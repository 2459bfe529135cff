"""Asking the engine, from a process that need not have torch: `headway check`, the watch."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..syllabus import ROOT
from .engine import ADDRESS
from .job import Job, decode, question, read

CONNECT_SECONDS = 2.0


class NoEngine(Exception):
    """There is none to be asked; the message is a sentence, empty where there is nothing to say of it."""


@dataclass(frozen=True)
class Address:
    port: int
    token: str
    pid: int

    def ask(self, job: Job) -> socket.socket:
        """A socket from which the answers come (`job.read`); closing it stops the run."""
        try:
            sock = socket.create_connection(("127.0.0.1", self.port), CONNECT_SECONDS)
            sock.settimeout(None)
            sock.sendall(question(job, self.token))
        except OSError:
            raise NoEngine("") from None
        return sock


def running() -> Address | None:
    """The engine that some watch has started on this kit, or None. A file that an engine left behind when it was killed is cleared away."""
    try:
        address = Address(**json.loads(ADDRESS.read_text(encoding="utf-8")))
        socket.create_connection(("127.0.0.1", address.port), CONNECT_SECONDS).close()
    except (OSError, ValueError, TypeError):
        with contextlib.suppress(OSError):
            ADDRESS.unlink()
        return None
    return address


def answers(job: Job) -> Iterator[dict[str, Any]]:
    """What the running engine says; NoEngine before the first word where none is running or it is not up to date."""
    address = running()
    if address is None:
        raise NoEngine("")
    with address.ask(job) as sock:
        messages = read(sock)
        first = next(messages, {"stale": True})
        if "stale" in first:
            raise NoEngine("")
        yield first
        yield from messages


class Engine:
    """An engine of one's own. It lives as long as this object's process, or until it is ended."""

    def __init__(self, *options: str) -> None:
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        command = [sys.executable, "-P", "-m", "grader.warm.engine", *options]
        self.process = subprocess.Popen(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": path}, start_new_session=True, **pipes)

    def address(self) -> Address:
        """Where it is to be found; waits until it is ready. NoEngine, with the reason, where it does not start."""
        said = decode(self.process.stdout.readline())
        if "port" not in said:
            raise NoEngine(said.get("trouble") or f"it ended with status {self.process.wait()}")
        return Address(**said)

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def end(self) -> None:
        """Cut its lifeline, and wait until it has put everything away."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
