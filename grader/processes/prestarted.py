"""For systems where forking is not safe: processes that have loaded everything and wait for one job each. One more than
needed is always prepared."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from grader.course.syllabus import ROOT
from grader.execution.late_calls import ExitWhenLate
from grader.processes.job import Job, encode, request, requested
from grader.processes.service import Service
from grader.system import process_tree
from grader.system.handshake import Listener, connect, read_token
from grader.system.process_tree import redirect_to_null

START_SECONDS = 120.0
TESTS_NOT_LOADED = "the tests could not be loaded; `pytest --collect-only` or `headway doctor` shows why"


class NeverReady(Exception):
    """A process ended before it had loaded everything."""


def python_process(
    module: str, *arguments: str, environment: Mapping[str, str] | None = None, **options: Any
) -> subprocess.Popen[bytes]:
    """A Python process that runs this module of the kit, in a new session, so that Control-C does not reach it. Its
    standard input is a pipe."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"} | dict(
        environment or {}
    )
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    apart: dict[str, Any] = dict(
        start_new_session=True, creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
    )
    command = [sys.executable, "-P", "-m", module, *arguments]
    return subprocess.Popen(
        command, env=variables, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, **apart, **options
    )


class PrestartedProcess:
    """A process that has loaded everything, or is loading it. A thread copies its messages to `sock`, so that the
    server never waits for it."""

    first_message_seconds = START_SECONDS + 15
    late = False  # it says so itself

    def __init__(self, module: str, *options: str) -> None:
        self.listener = Listener()
        self.process = python_process(module, *options, "--one-job", str(self.listener.port), stdout=subprocess.DEVNULL)
        process_tree.own_children.add(self.process.pid)
        self.listener.send_token(self.process)
        self.sock, self.theirs = socket.socketpair()
        self.line: socket.socket | None = None

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def wait(self) -> socket.socket:
        """The connection to it, after everything is loaded. NeverReady if that fails."""
        self.line = self.line or self.listener.wait_for(self.process)
        if self.line is None:
            raise NeverReady(TESTS_NOT_LOADED)
        return self.line

    def run(self, job: Job) -> None:
        threading.Thread(target=self._copy_messages, args=[job], name="headway prestarted process", daemon=True).start()

    def _copy_messages(self, job: Job) -> None:
        with self.theirs, contextlib.suppress(OSError):
            try:
                line = self.wait()
            except NeverReady as problem:
                self.theirs.sendall(encode({"trouble": str(problem)}))
                return
            line.sendall(request(job))
            while piece := line.recv(1 << 16):
                self.theirs.sendall(piece)

    def end(self, hurry: bool) -> int | None:
        status = process_tree.end_subprocess(self.process, 0.0 if hurry else process_tree.ENDING_SECONDS)
        for sock in (self.listener, self.sock, self.theirs, self.line):
            if sock:
                sock.close()
        process_tree.own_children.discard(self.process.pid)
        process_tree.kill_orphans()
        return status


class PrestartingStarter:
    """Keeps one more prestarted process than is needed; none if there will be only one run."""

    def __init__(self, module: str, *options: str, once: bool = False) -> None:
        """The module and its options, which start a server of the kind that needs these processes."""
        self.command, self.once = (module, *options), once
        self.close_in_fork: Callable[[], None] = lambda: None  # nothing is forked
        self.next = PrestartedProcess(*self.command)
        try:
            self.next.wait()
        except NeverReady:
            self.next.end(hurry=True)
            raise

    def start(self, job: Job) -> PrestartedProcess:
        if not self.next.alive:  # it has ended since it was started
            self.next.end(hurry=True)
            self.next = PrestartedProcess(*self.command)
        process = self.next
        if not self.once:
            self.next = PrestartedProcess(*self.command)
        process.run(job)
        return process

    def close(self) -> None:
        self.next.end(hurry=True)


def serve_one_job(make_service: Callable[[], Service], port: int) -> None:
    """Run as such a process: load everything, then run one job."""
    token = read_token()
    process_tree.die_with_parent(os.getppid())
    redirect_to_null()
    from grader.processes.preloaded import load_kit, run_job  # it and the service load torch

    service = make_service()
    load_kit()
    sock = connect(port, token)
    job = requested(sock.makefile("rb", buffering=0).readline(), service.runners)
    if job is not None:
        threading.Thread(target=_exit_with, args=[sock, os._exit], name="headway server watch", daemon=True).start()
        run_job(job, sock, ExitWhenLate(sock.fileno()), service.runners)


def _exit_with(server: socket.socket, leave) -> None:
    """The server sends nothing after the job: when this returns, the server has ended or wants to stop the run."""
    with contextlib.suppress(OSError):
        server.recv(1)
    leave(1)
