"""The requests of one example: sent to the host one by one, or ahead of the test where a recording says what it will
request.

A test depends on its arguments, the replies of both sides and its seeds only. So as long as all replies are the
recorded ones, it requests what is recorded; and if they are to the end, it passes, because it did when it was recorded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from grader.execution.connection import Exchange, HostConnection, Reply, Request
from grader.execution.errors import HostDied, OutOfTime

MAX_AHEAD_BYTES = 64 * 1024  # of an example's requests and replies; sending large ones ahead gains little


@dataclass(frozen=True)
class RecordedExample:
    """The exchanges of an example in which the reference was the tested code too, and the test passed."""

    learner: list[Exchange]  # none if they are large
    reference: list[Exchange]
    parts: list[list[Request]]  # the learner's, as they may be sent to code that is not trusted

    @classmethod
    def of(cls, learner: list[Exchange], reference: list[Exchange]) -> RecordedExample:
        if byte_count(learner) > MAX_AHEAD_BYTES:
            learner = []
        return cls(learner, reference, list(_parts(learner)))

    @property
    def size(self) -> int:
        return byte_count(self.learner) + byte_count(self.reference)

    @property
    def names(self) -> set[str]:
        """The names of the implementation that the example uses."""
        return {each.tree[0] for each in self.learner if each.op == "get"}


def byte_count(exchanges: list[Exchange]) -> int:
    """The bytes of their tensors."""
    return sum(len(data) for each in exchanges for data in (*each.buffers, *each.out))


def _parts(exchanges: list[Exchange]) -> Iterator[list[Request]]:
    """The requests in parts. No request contains the right reply to another one of its part: the tested code could look
    for it."""
    part: list[Request] = []
    values = set[Any]()
    for each in exchanges:
        if not values.isdisjoint(_values(each.tree, each.buffers)):
            yield part
            part, values = [], set()
        part.append(each.request)
        values.update(_values(each.reply, each.out))
    if part:
        yield part


def _values(tree: Any, buffers: Sequence[bytes]) -> Iterator[Any]:
    """The numbers, texts and buffers in a packed value, also lists of them; no handle, no truth value."""
    yield from buffers
    left = [tree]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            left += [body for kind, body in part.items() if kind not in ("handle", "tensor", "dtype", "device")]
        elif isinstance(part, list):
            left += part
            yield json.dumps(part)
        elif isinstance(part, str | int | float) and not isinstance(part, bool):
            yield part


class ExampleRequests:
    """Answers the requests of a test from replies that are known, as long as they are the recorded ones. At the first
    other request, the host begins the example again with the requests so far, and answers one by one.

    The host begins an example together with its first request."""

    def __init__(self, connection: HostConnection) -> None:
        self.connection = connection
        self._begin: Request = ("begin", [0, [], False], [])
        self._has_begun = False  # at the host
        self._asked: list[Request] = []
        self._at_host = 0  # how many requests of the example the host has carried out
        self._recorded: Sequence[Exchange] = ()
        self._parts: list[list[Request]] = []  # of them, which can be sent ahead
        self._replies: list[Reply] = []  # to the first of the recorded requests
        self._problem: HostDied | OutOfTime | None = None  # how the request after these ended

    def reply_from(self, recorded: Sequence[Exchange]) -> None:
        """Reply what is recorded."""
        self._recorded, self._replies = recorded, [(each.reply, each.out) for each in recorded]

    def send_ahead(self, recorded: RecordedExample) -> bool:
        """Have the host carry out what is recorded, part by part; true if all its replies are the recorded ones."""
        self._recorded, self._parts = recorded.learner, list(recorded.parts)
        while self._parts:
            before = len(self._replies)
            self._send_part()
            replies = zip(recorded.learner[before:], self._replies[before:])
            if self._problem or not all(each.is_answered_by(reply) for each, reply in replies):
                return False
        return bool(recorded.parts)

    def _send_part(self) -> None:
        try:
            self._carry_out(self._parts.pop(0), self._replies)
        except (HostDied, OutOfTime) as problem:
            self._problem, self._parts = problem, []
        self._at_host = len(self._replies)

    def _carry_out(self, requests: list[Request], replies: list[Reply]) -> None:
        beginning = [] if self._has_begun else [self._begin]
        self._has_begun, found = True, list[Reply]()
        try:
            self.connection.exchange_all([*beginning, *requests], found)
        finally:
            replies += found[len(beginning) :]

    def exchange(self, *request: Any) -> Reply:
        if request[0] == "begin":
            self._begin, self._asked, self._at_host = request, [], 0
            self._recorded, self._parts, self._replies, self._problem = (), [], [], None
            self._has_begun = not self.connection.started  # then starting it may fail, which must be known now
            return self.connection.exchange(*request) if self._has_begun else ({"value": None}, [])
        place = len(self._asked)
        if place < len(self._recorded) and self._recorded[place].asks(request):
            if place == len(self._replies) and self._parts:
                self._send_part()
            if place < len(self._replies):
                self._asked.append(request)
                return self._replies[place]
            if self._problem:
                raise self._problem
        self._recorded = ()
        if self._at_host != place:
            self._has_begun = False
            for earlier in self._asked:
                self._carry_out([earlier], [])
        replies: list[Reply] = []
        self._carry_out([request], replies)
        self._asked.append(request)
        self._at_host = place + 1
        return replies[0]
