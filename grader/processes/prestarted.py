"""Where forking is not safe: processes that have loaded everything and wait for one run each, always one in stock.

`python -m grader.processes.prestarted PORT` is such a process: it proves who it is with a token from its standard input, waits for a job, runs it and ends.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from grader.course.syllabus import ROOT
from grader.processes.job import Job, decode, encode
from grader.processes.limits import limit_this_process
from grader.system import process_tree
from grader.system.handshake import Listener, connect, read_token
from grader.system.streams import redirect_to_null

START_SECONDS = 120.0
COLD = "the tests could not be loaded; `pytest --collect-only` or `headway doctor` shows why"


class NeverReady(Exception):
    """A spare process ended before it was asked anything."""


class Spare:
    """A process with everything loaded, or on the way to it. A thread carries what it says to `sock`, so that nobody has to wait for it."""

    patience = START_SECONDS + 15

    def __init__(self, module: str = "grader.processes.prestarted", *options: str) -> None:
        self.listener = Listener()
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        command = [sys.executable, "-P", "-m", module, str(self.listener.port), *options]
        silent: dict[str, Any] = dict(stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        apart: dict[str, Any] = dict(start_new_session=True, creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0))
        self.process = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": path}, **apart, **silent)
        process_tree.own_children.add(self.process.pid)
        self.listener.send_token(self.process)
        self.sock, self.theirs = socket.socketpair()
        self.line: socket.socket | None = None

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def wait(self) -> socket.socket:
        """Until everything is loaded: the line to it. NeverReady where that fails."""
        self.line = self.line or self.listener.wait_for(self.process)
        if self.line is None:
            raise NeverReady(COLD)
        return self.line

    def begin(self, job: Job) -> None:
        threading.Thread(target=self._carry, args=[job], name="headway spare", daemon=True).start()

    def _carry(self, job: Job) -> None:
        """Hand it its job when it is ready, and pass on what it says."""
        with self.theirs, contextlib.suppress(OSError):
            try:
                line = self.wait()
            except NeverReady as problem:
                self.theirs.sendall(encode({"trouble": str(problem)}))
                return
            line.sendall(encode({"job": vars(job)}))
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


class Stock:
    """One spare process ahead of what is asked for."""

    def __init__(self, *kind: str) -> None:
        self.kind = kind  # the module of another kind of spare, and its options
        self.next = Spare(*kind)
        try:
            self.next.wait()
        except NeverReady:
            self.next.end(hurry=True)
            raise

    def start(self, job: Job) -> Spare:
        if not self.next.alive:  # it has died since it was made
            self.next.end(hurry=True)
            self.next = Spare(*self.kind)
        spare, self.next = self.next, Spare(*self.kind)
        spare.begin(job)
        return spare

    def __enter__(self) -> Stock:
        return self

    def __exit__(self, *_: object) -> None:
        self.next.end(hurry=True)


def main() -> None:
    from grader.processes import picture_run

    be_spare(Job, partial(picture_run.begin, fork=False))


def be_spare(kind: type, begin: Callable, limited: bool = True) -> None:
    """Load everything, then be the run of the job that comes."""
    token = read_token()
    process_tree.die_with_parent(os.getppid())
    redirect_to_null()
    from grader.processes import preloaded_session

    def wait() -> tuple[Any, socket.socket] | None:
        sock = connect(int(sys.argv[1]), token)
        line = sock.makefile("rb", buffering=0).readline()
        if not line:
            return None
        threading.Thread(target=_leave_with, args=[sock, os._exit], name="headway engine watch", daemon=True).start()
        if limited:
            limit_this_process()
        return kind(**decode(line)["job"]), sock

    preloaded_session.hold(wait, begin)


def _leave_with(engine: socket.socket, leave) -> None:
    """The engine says nothing after the job: when this comes back it is gone, or wants the run no more."""
    with contextlib.suppress(OSError):
        engine.recv(1)
    leave(1)


if __name__ == "__main__":
    main()
