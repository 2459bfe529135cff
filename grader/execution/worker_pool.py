"""Starts the processes of workers, and ends them. It does without torch, so that one can start early."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grader.execution.errors import NoWorker
from grader.execution.sandbox import bubblewrap
from grader.execution.sandbox.isolation import Isolation, available
from grader.system.handshake import Listener
from grader.system.process_tree import ENDING_SECONDS, SANDBOXED, describe_exit, end_subprocess

START_SECONDS = 120.0
# torch may need these to start; the worker then clears its environment
_TO_START = ("LANG", "LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONUTF8")
_NOT_STARTED = "the process that starts workers for your code did not start; `headway doctor` looks for the reason"
_ENDED = "the process that starts workers for your code has ended; did your code end it?"


class WorkerPool:
    """Starts workers: on Linux by forking a preloaded process (the zygote), elsewhere as new Python processes."""

    zygote_program: tuple[str, ...] = ("grader.execution.zygote",)  # a module, and its first arguments
    worker_program: tuple[str, ...] = ("grader.execution.worker_process",)

    def __init__(
        self,
        fork: bool | None = None,
        warm: bool = False,
        isolation: Isolation | None = None,
        control: socket.socket | None = None,
    ) -> None:
        self.fork = sys.platform.startswith("linux") if fork is None else fork
        # fork the zygote from this process, which has loaded torch and has one thread; workers then have a copy of its
        # memory
        self.warm = warm
        self.isolation = isolation  # None: every layer of this machine except bubblewrap, which needs a separate start
        self.zygote: subprocess.Popen | int | None = None
        self.control = control  # the socket to a zygote that already runs, started by another pool
        self.unread = False  # does the zygote send a line that no one waits for?
        self.trouble = _ENDED  # what it means when the zygote's lines end
        if control is not None:
            control.settimeout(START_SECONDS)

    def start_early(self) -> None:
        """Start the zygote, and do not wait until it has loaded torch: the first command does."""
        self._start_zygote()

    def new_zygote(self) -> socket.socket:
        """The control socket of another zygote, forked from this pool's, for a pool in another process. The zygote ends
        when the socket is closed. It is forked while the caller goes on."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._send("zygote", theirs.fileno())
        return ours

    def prepare(self, forbids: tuple[str, ...]) -> None:
        """Have the zygote prepare the watch on these forbidden names, so that no worker need."""
        if forbids:
            self._send(" ".join(("prepare", *forbids)))

    def start(self) -> tuple[socket.socket, Any]:
        """A socket to a new worker in its sandbox, and the worker's process (for `end_worker`). NoWorker if that cannot
        be started."""
        sock, process = self._forked() if self.fork else self._spawned()
        sock.settimeout(START_SECONDS)
        with contextlib.suppress(OSError):
            if sock.recv(1) == SANDBOXED:
                return sock, process
        sock.close()
        raise NoWorker(
            f"the process for your code did not start: {describe_exit(self.end_worker(process, ENDING_SECONDS))}"
        )

    def end_worker(self, process: Any, patience: float) -> int | None:
        """End a worker; its exit code (negative: the signal), or None if it had not ended after so many seconds and was
        killed."""
        if isinstance(process, subprocess.Popen):
            return end_subprocess(process, patience)
        return self._command(f"end {process} {patience}")

    def _available_isolation(self) -> Isolation:
        if self.isolation is None:
            self.isolation = available(bubblewrap=False)
        if self.isolation.bubblewrap and (self.warm or not self.fork):
            raise ValueError("only workers of a pool that started its own zygote can be put into bubblewrap")
        return self.isolation

    def _forked(self) -> tuple[socket.socket, Any]:
        ours, theirs = socket.socketpair()
        with theirs:
            return ours, self._command("fork", theirs.fileno())

    def _command(self, words: str, *descriptors: int) -> Any:
        """The zygote's answer to a command."""
        control = self._send(words, *descriptors)
        with self._or_no_worker():
            answer = json.loads(_line(control))
        self.unread = False
        return answer

    def _send(self, words: str, *descriptors: int) -> socket.socket:
        """Send a command to the zygote; return where its answer comes."""
        control = self.control or self._start_zygote()
        with self._or_no_worker():
            if self.unread:  # that it is ready, or an earlier answer
                _line(control)
            self.trouble = _ENDED
            socket.send_fds(control, [words.encode()], list(descriptors))
        self.unread = True
        return control

    @contextlib.contextmanager
    def _or_no_worker(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError, EOFError):
            self.close()
            raise NoWorker(self.trouble) from None

    def _start_zygote(self) -> socket.socket:
        control, theirs = socket.socketpair()
        self.control = control
        control.settimeout(START_SECONDS)
        with theirs:
            if self.warm:
                from grader.execution.zygote import fork_zygote

                self.zygote = fork_zygote(theirs, self._available_isolation())
                return control
            isolation = self._available_isolation()
            command = _python(*self.zygote_program, str(theirs.fileno()), str(isolation))
            if isolation.bubblewrap:
                command = bubblewrap.command(command)
            self.zygote = subprocess.Popen(
                command, env=_environment(isolation), pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
                start_new_session=True,  # Control-C is for the program at the terminal
            )  # fmt: skip
            self.unread, self.trouble = True, _NOT_STARTED
        return control

    def _spawned(self) -> tuple[socket.socket, subprocess.Popen]:
        listener = Listener()
        with contextlib.closing(listener):
            command = _python(*self.worker_program, str(listener.port), str(self._available_isolation()))
            process = subprocess.Popen(
                command, env=_environment(self._available_isolation()), stdin=subprocess.PIPE, start_new_session=True
            )
            listener.send_token(process)
            sock = listener.wait_for(process, START_SECONDS)
        if sock is None:
            raise NoWorker(f"the process for your code did not start: {describe_exit(self.end_worker(process, 0.0))}")
        return sock, process

    def close(self) -> None:
        if self.control is not None:
            self.control.close()
            self.control, self.unread = None, False
        if isinstance(self.zygote, int):
            os.waitpid(self.zygote, 0)
        elif self.zygote is not None:
            if self.trouble == _NOT_STARTED:  # it still loads torch, and has no worker
                self.zygote.kill()
            try:
                self.zygote.wait(5)
            except subprocess.TimeoutExpired:
                self.zygote.kill()
                self.zygote.wait()
        self.zygote = None


def _line(control: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"\n"):
        piece = control.recv(4096)
        if not piece:
            raise EOFError
        data += piece
    return data


def _python(module: str, *arguments: str) -> list[str]:
    # -P: do not import from the current folder, which may contain a random.py
    return [sys.executable, "-P", "-m", module, *arguments]


def _environment(isolation: Isolation) -> dict[str, str]:
    kit = Path(__file__).resolve().parents[2]
    path = os.pathsep.join(filter(None, [str(kit), os.environ.get("PYTHONPATH")]))
    mine = (
        {name: value for name, value in os.environ.items() if name.startswith("LC_") or name in _TO_START}
        if isolation
        else os.environ
    )
    return mine | {"PYTHONPATH": path, "PYTHONHASHSEED": "0"}  # then the order of a set is the same in every run
