"""The connection to the reference, which is imported when it is first needed: never if all its replies are recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grader.course.syllabus import Chapter
from grader.execution.calls import Reply, Request
from grader.execution.in_process import InProcessHost
from grader.execution.target import package_sources, resolve

_NOTHING: Reply = ({"value": None}, [])


class ReferenceConnection:
    """Looks like a host; it begins an example only when a request of it comes."""

    seconds = 0.0
    bytes_received = 0

    def __init__(self, start: Callable[[], InProcessHost]) -> None:
        self._start = start
        self._host: InProcessHost | None = None
        self._begin: Request | None = None  # of an example that the host has not begun
        self.shortcuts: set[str] = set()
        self.import_shortcuts: set[str] = set()

    def exchange(self, op: str, tree: Any, buffers: list[bytes]) -> Reply:
        if op == "begin":
            self._begin = op, tree, buffers
        return _NOTHING if op in ("begin", "load") else self._begun_host().exchange(op, tree, buffers)

    def exchange_all(self, requests: list[Request], replies: list[Reply]) -> None:
        self._begun_host().exchange_all(requests, replies)

    def _begun_host(self) -> InProcessHost:
        if self._host is None:
            self._host = self._start()
            self._host.exchange("begin", [0, []], [])
            self._host.exchange("load", [], [])
        if self._begin:
            self._host.exchange(*self._begin)
            self._begin = None
        return self._host

    def abandon(self) -> None:
        pass  # the reference's answers are well-formed

    def close(self) -> None:
        if self._host:
            self._host.close()


def connect_reference(chapter: Chapter) -> ReferenceConnection:
    """A connection to the reference of this chapter."""
    return ReferenceConnection(
        lambda: InProcessHost(
            package_sources(resolve("solutions"), chapter, whole=True), chapter.name, 0, 0, trusted=True
        )
    )
