"""The connection to the reference: a recorded answer where one fits, else the reference itself.

Recorded answers hold as long as a test asks exactly what was recorded, from the first request of the example on. At the
first other request the reference is given all requests of the example so far, and answers from there on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from grader.course.syllabus import Chapter
from grader.execution.in_process import InProcessHost
from grader.execution.target import package_sources, resolve

Reply = tuple[dict, list[bytes]]
_NOTHING: Reply = ({"value": None}, [])


@dataclass(frozen=True)
class Answer:
    """An answer of the reference, and the fingerprint of the request that it belongs to."""

    request: str
    reply: dict
    buffers: list[bytes]


class ReferenceConnection:
    """Looks like a host. The chapter of the reference is imported when it is first needed, which is never if all
    answers are recorded."""

    seconds = 0.0
    bytes_received = 0

    def __init__(self, start: Callable[[], InProcessHost]) -> None:
        self._start = start
        self._host: InProcessHost | None = None
        self._begin: tuple[str, Any, list[bytes]] = ("begin", [0, []], [])
        self._requests: list[tuple[str, Any, list[bytes]]] = []  # of this example
        self._live = False  # has the reference itself answered in this example?
        self._recorded: list[Answer] = []
        self._note: list[Answer] | None = None
        self.shortcuts: set[str] = set()
        self.import_shortcuts: set[str] = set()

    def begin_example(self, recorded: list[Answer], note: list[Answer] | None) -> None:
        """Use these answers in the next example, and add each answer of the example to `note`."""
        self._recorded, self._note = recorded, note

    def exchange(self, op: str, tree: Any, buffers: list[bytes]) -> Reply:
        if op == "begin":
            self._begin, self._requests, self._live = (op, tree, buffers), [], False
            return _NOTHING
        if op == "load":
            return _NOTHING
        request = (
            fingerprint(op, tree, buffers) if self._note is not None or (self._recorded and not self._live) else ""
        )
        found = None if self._live else self._recorded_answer(request)
        reply, out = (found.reply, found.buffers) if found else self._ask_reference(op, tree, buffers)
        self._requests.append((op, tree, buffers))
        if self._note is not None:
            self._note.append(Answer(request, reply, out))
        return reply, out

    def _recorded_answer(self, request: str) -> Answer | None:
        place = len(self._requests)
        found = self._recorded[place] if place < len(self._recorded) else None
        return found if found and found.request == request else None

    def _ask_reference(self, op: str, tree: Any, buffers: list[bytes]) -> Reply:
        host = self._host
        if host is None:
            host = self._host = self._start()
            host.exchange(*self._begin)
            host.exchange("load", [], [])
        if not self._live:
            self._live = True
            host.exchange(*self._begin)
            for request in self._requests:
                host.exchange(*request)
        return host.exchange(op, tree, buffers)

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


def fingerprint(op: str, tree: Any, buffers: list[bytes]) -> str:
    """Equal for equal requests only: values of different types, 1 and 1.0 and True, differ."""
    digest = hashlib.blake2b(json.dumps([op, tree, [len(data) for data in buffers]]).encode(), digest_size=12)
    for data in buffers:
        digest.update(data)
    return digest.hexdigest()
