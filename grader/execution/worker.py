"""Runs the learner's code in a separate process: sends requests over a socket, and enforces the deadline with SIGKILL.

A worker that dies, stalls or sends malformed data fails the current test; the next test gets a new worker.
"""

from __future__ import annotations

import socket
import time
from typing import Any

from grader.course.chapter_source import ChapterSource
from grader.course.torch_operators import reportable, reportable_at_import
from grader.execution.connection import HostConnection, Reply, Request
from grader.execution.errors import ChapterBroken, ExtendDeadline, HostDied, OutOfTime
from grader.execution.late_calls import find_line, read_stack, slowdown
from grader.execution.wire import Allowance, DeadlinePassed, MalformedFrame, receive, send
from grader.execution.worker_pool import START_SECONDS, WorkerPool
from grader.system.process_tree import ENDING_SECONDS, describe_exit


class Worker(HostConnection):
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

    @property
    def started(self) -> bool:
        return self.sock is not None

    def exchange_all(self, requests: list[Request], replies: list[Reply]) -> None:
        """Send requests to the worker and collect its replies; kill it at the time limit."""
        op, tree, _ = requests[0]
        if op == "begin":
            self.allowance = Allowance()
            self.forbids = tuple(tree[1])
        if self.sock is None:
            if op not in ("begin", "load"):
                raise HostDied("the process that ran your code has ended")
            self._start()
            if self.loaded:  # the last worker has ended; this is a new one
                self._exchange_all([("load", [], [])], [])
        self._exchange_all(requests, replies)
        self.loaded = self.loaded or requests[-1][0] == "load"

    def _exchange_all(self, requests: list[Request], replies: list[Reply]) -> None:
        """Send requests in one frame; each gets a frame as its reply, within the limit of one."""
        loading = requests[-1][0] == "load"
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
        self.extend_deadline(START_SECONDS)
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
