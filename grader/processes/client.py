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

from grader.course.syllabus import ROOT
from grader.processes.engine import ADDRESS
from grader.processes.job import Job, decode, question, read

CONNECT_SECONDS = 2.0
ACCEPT_SECONDS = 5.0
DOCTOR = "`headway doctor` may know why"


class NoEngine(Exception):
    """There is none to be asked; the message is a sentence, empty where there is nothing to say of it."""


class BrokeOff(NoEngine):
    """The engine went while it ran the learner's code, and may have been ended by it."""


@dataclass(frozen=True)
class Address:
    port: int
    token: str
    pid: int

    def ask(self, job: Any) -> socket.socket:
        """A socket from which the answers come (`job.read`); closing it stops the run. NoEngine where it is not accepted."""
        try:
            sock = socket.create_connection(("127.0.0.1", self.port), CONNECT_SECONDS)
        except OSError:
            raise NoEngine("") from None
        try:
            sock.settimeout(ACCEPT_SECONDS)
            sock.sendall(question(job, self.token))
            if "accepted" not in decode(_line(sock)):
                raise NoEngine("")
            sock.settimeout(None)
        except BaseException as problem:
            sock.close()
            if isinstance(problem, OSError):
                raise NoEngine("") from None
            raise
        return sock


def _line(sock: socket.socket) -> bytes:
    """The first line of an answer, and not a byte of what follows; cut where it is longer than any of ours."""
    line = b""
    while not line.endswith(b"\n") and len(line) < 100:
        piece = sock.recv(1)
        if not piece:
            break
        line += piece
    return line


def running() -> Address | None:
    """What is written of an engine that some watch has started on this kit, or None."""
    try:
        said = json.loads(ADDRESS.read_text(encoding="utf-8"))
        return Address(int(said["port"]), str(said["token"]), int(said["pid"]))
    except OSError:
        return None
    except (ValueError, TypeError, KeyError):
        _clear(None)
        return None


def answers(job: Job) -> Iterator[dict[str, Any]]:
    """What the running engine says; NoEngine before the first word where none is running or it is not up to date."""
    address = running()
    if address is None:
        raise NoEngine("")
    try:
        sock = address.ask(job)
    except NoEngine:
        _clear(address)
        raise
    with sock:
        yield from read(sock)
    raise BrokeOff("the engine that ran the tests is gone, perhaps by your code")


def _clear(address: Address | None) -> None:
    """Take away what an engine left behind that was killed, or what never was an address; not what a newer one has written since."""
    with contextlib.suppress(OSError):
        if address is None or address.token in ADDRESS.read_text(encoding="utf-8"):
            ADDRESS.unlink()


class Engine:
    """An engine of one's own. It lives as long as this object's process, or until it is ended."""

    def __init__(self, *options: str, module: str = "grader.processes.engine") -> None:
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"} | {"PYTHONPATH": path}
        pipes: dict[str, Any] = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        apart: dict[str, Any] = dict(start_new_session=True, creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0))  # Control-C is not for it
        command = [sys.executable, "-P", "-m", module, *options]
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment, **apart, **pipes)
        assert self.process.stdin and self.process.stdout
        self.lifeline, self.said = self.process.stdin, self.process.stdout
        self.ready = False

    def address(self) -> Address:
        """Where it is to be found; waits until it is ready. NoEngine, with the reason, where it does not start."""
        said = decode(self.said.readline())
        if "port" not in said:
            raise NoEngine(said.get("trouble") or f"the engine that runs the tests did not start (status {self.process.wait()}); {DOCTOR}")
        self.ready = True
        return Address(**said)

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def end(self) -> None:
        """Cut its lifeline, and wait until it has put everything away."""
        with contextlib.suppress(OSError):
            self.lifeline.close()
        try:
            self.process.wait(5 if self.ready else 0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            if (address := running()) and address.pid == self.process.pid:
                _clear(address)
        self.said.close()
