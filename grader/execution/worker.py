"""Runs the learner's code in a separate process: sends requests over a socket, and enforces the deadline with SIGKILL.

A worker that dies, stalls or sends malformed data fails the current test; the next test gets a new worker.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from grader.course.chapter_source import ChapterSource
from grader.course.torch_operators import reportable, reportable_at_import
from grader.execution.calls import Reply, Request
from grader.execution.errors import ChapterBroken, ExtendDeadline, HostDied, NoWorker, OutOfTime
from grader.execution.sandbox import bubblewrap
from grader.execution.sandbox.isolation import Isolation, available
from grader.execution.stuck_line import find_line, read_stack
from grader.execution.wire import Allowance, DeadlinePassed, MalformedFrame, receive, send
from grader.system.exit_reason import SANDBOXED, describe_exit
from grader.system.handshake import Listener
from grader.system.load import slowdown
from grader.system.process_tree import ENDING_SECONDS, end_subprocess

_START_SECONDS = 120.0
# torch may need these to start; the worker then clears its environment
_TO_START = ("LANG", "LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONUTF8")


class WorkerPool:
    """Starts workers: on Linux by forking a preloaded process (the zygote), elsewhere as new Python processes."""

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
        self.ready = True  # has the zygote loaded torch?
        if control is not None:
            control.settimeout(_START_SECONDS)

    def start_early(self) -> None:
        """Start the zygote, and do not wait until it has loaded torch: the first command does."""
        self._start_zygote()

    def new_zygote(self) -> socket.socket:
        """The control socket of another zygote, forked from this pool's, for a pool in another process. The zygote ends
        when the socket is closed."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._command("zygote", theirs.fileno())
        return ours

    def start(self) -> tuple[socket.socket, Any]:
        """A socket to a new worker in its sandbox, and the worker's process (for `end_worker`). NoWorker if that cannot
        be started."""
        sock, process = self._forked() if self.fork else self._spawned()
        sock.settimeout(_START_SECONDS)
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
        control = self.control or self._start_zygote()
        self._wait_until_ready(control)
        try:
            socket.send_fds(control, [words.encode()], list(descriptors))
            return json.loads(_line(control))
        except (OSError, ValueError, EOFError):
            self.close()
            raise NoWorker("the process that starts workers for your code has ended; did your code end it?") from None

    def _start_zygote(self) -> socket.socket:
        control, theirs = socket.socketpair()
        self.control = control
        control.settimeout(_START_SECONDS)
        with theirs:
            if self.warm:
                from grader.execution.zygote import fork_zygote

                self.zygote = fork_zygote(theirs, self._available_isolation())
                return control
            isolation = self._available_isolation()
            command = _python("grader.execution.zygote", str(theirs.fileno()), str(isolation))
            if isolation.bubblewrap:
                command = bubblewrap.command(command)
            self.zygote = subprocess.Popen(
                command, env=_environment(isolation), pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
            )
            self.ready = False
        return control

    def _wait_until_ready(self, control: socket.socket) -> None:
        if self.ready:
            return
        try:
            _line(control)
        except (OSError, EOFError):
            self.close()
            raise NoWorker(
                "the process that starts workers for your code did not start; `headway doctor` looks for the reason"
            ) from None
        self.ready = True

    def _spawned(self) -> tuple[socket.socket, subprocess.Popen]:
        listener = Listener()
        with contextlib.closing(listener):
            command = _python("grader.execution.worker_process", str(listener.port), str(self._available_isolation()))
            process = subprocess.Popen(
                command, env=_environment(self._available_isolation()), stdin=subprocess.PIPE, start_new_session=True
            )
            listener.send_token(process)
            sock = listener.wait_for(process, _START_SECONDS)
        if sock is None:
            raise NoWorker(f"the process for your code did not start: {describe_exit(self.end_worker(process, 0.0))}")
        return sock, process

    def close(self) -> None:
        if self.control is not None:
            self.control.close()
            self.control = None
        if isinstance(self.zygote, int):
            os.waitpid(self.zygote, 0)
        elif self.zygote is not None:
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


class Worker:
    """Connects to a host for one chapter in a worker, and starts a new worker when the last one has ended."""

    def __init__(
        self, pool: WorkerPool, sources: list[ChapterSource], chapter: str, seconds: float, import_seconds: float,
        extend_deadline: ExtendDeadline = lambda _: None,
    ) -> None:  # fmt: skip
        self.pool, self.sources, self.chapter = pool, sources, chapter
        self.seconds, self.import_seconds, self.extend_deadline = seconds, import_seconds, extend_deadline
        self.waited = 0.0  # seconds that the same call had before, in another process, without returning
        self.sock: socket.socket | None = None
        self.process: Any = None
        self.loaded = False
        self.shortcuts: set[str] = set()
        self.import_shortcuts: set[str] = set()
        self.forbids: tuple[str, ...] = ()  # of the exercise that this example is for
        self.allowance = Allowance()

    @property
    def bytes_received(self) -> int:
        return self.allowance.used

    def exchange(self, op: str, tree: Any, buffers: list[bytes]) -> Reply:
        if op == "begin":
            self.allowance = Allowance()
            self.forbids = tuple(tree[1])
        if self.sock is None:
            if op not in ("begin", "load"):
                raise HostDied("the process that ran your code has ended")
            self._start()
            if self.loaded:  # the last worker has ended; this is a new one
                self._exchange_all([("load", [], [])], [])
        replies: list[Reply] = []
        self._exchange_all([(op, tree, buffers)], replies)
        self.loaded = self.loaded or op == "load"
        return replies[0]

    def exchange_all(self, requests: list[Request], replies: list[Reply]) -> None:
        if self.sock is None:
            raise HostDied("the process that ran your code has ended")
        self._exchange_all(requests, replies)

    def _exchange_all(self, requests: list[Request], replies: list[Reply]) -> None:
        """Send requests in one frame; each gets a frame as its reply, within the limit of one."""
        loading = requests[0][0] == "load"
        limit = self.import_seconds if loading else self.seconds
        clock = limit * slowdown()
        sock = self.sock
        assert sock is not None, "it is started first"
        try:
            sock.settimeout(clock)
            heads = [[op, tree, len(buffers)] for op, tree, buffers in requests]
            send(sock, [heads, clock], [data for *_, buffers in requests for data in buffers])
            for _ in requests:
                self.extend_deadline(clock)
                reply, out = self._reply(sock, time.monotonic() + clock, loading)
                if not isinstance(reply, dict) or len(reply) != 1 or not reply.keys() <= {"value", "error"}:
                    raise MalformedFrame("the answer has no value and no error")
                replies.append((reply, out))
        except (DeadlinePassed, TimeoutError) as passed:
            stack = read_stack(sock, passed.beginning if isinstance(passed, DeadlinePassed) else b"")
            where = find_line(
                stack, (source for source in self.sources if source.name == self.chapter or not source.code)
            )
            self._end(0.0)
            if loading:
                raise ChapterBroken(f"importing it did not end within {limit:g} s", where, timed_out=True) from None
            raise OutOfTime(f"the call did not end within {max(limit, self.waited):g} s", where) from None
        except MalformedFrame as problem:
            self._end(0.0)
            raise HostDied(f"the process that ran your code sent a malformed answer ({problem})") from None
        except (EOFError, OSError):
            ending = describe_exit(self._end(ENDING_SECONDS))
            if loading:
                raise ChapterBroken(f"importing it ended the process: {ending}") from None
            raise HostDied(f"your code ended the process it ran in: {ending}") from None

    def _reply(self, sock: socket.socket, deadline: float, importing: bool) -> tuple[Any, list[bytes]]:
        """The answer. The names of forbidden functions that the code ran are sent before it."""
        names = reportable_at_import(self.forbids) if importing else reportable(self.forbids)
        shortcuts = self.import_shortcuts if importing else self.shortcuts
        while True:
            try:
                reply, out = receive(sock, deadline, self.allowance)
            except MalformedFrame:
                if time.monotonic() > deadline:  # half an answer, and then the stack
                    raise DeadlinePassed from None
                raise
            if not isinstance(reply, dict) or reply.keys() != {"shortcut"}:
                return reply, out
            name = reply["shortcut"]
            if not isinstance(name, str) or name not in names or out:
                raise MalformedFrame("it reports a name that this exercise does not forbid")
            shortcuts.add(name)

    def _start(self) -> None:
        self.extend_deadline(_START_SECONDS)
        self.sock, self.process = self.pool.start()
        sources = [[source.name, source.text, source.filename, list(source.replaced)] for source in self.sources]
        send(self.sock, [sources, self.chapter], [source.code for source in self.sources])

    def _end(self, patience: float) -> int | None:
        """Close the connection and end the process; its exit status."""
        if self.sock is not None:
            self.sock.close()
            self.sock = None
        return self.pool.end_worker(self.process, patience)

    def abandon(self) -> None:
        if self.sock is not None:
            self._end(0.0)

    def close(self) -> None:
        self.abandon()
