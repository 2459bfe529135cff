"""What crosses between a proxy and its host, and the records of it: which calls of the implementation a test made, and
what it read from objects, for the explanation of a failure."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Protocol


@dataclass(eq=False)
class Call:
    """A call of the implementation, as a failure message shows it: "softmax", its arguments, and the result."""

    what: str
    args: tuple
    options: dict
    result: Any = None
    callee: Any = None  # the handle that was called
    # where the test made the call: file and line, innermost frame first
    lines: list[tuple[str, int]] = field(default_factory=list)
    returned_none: bool = False
    number: int = -1  # of its request in this example; the host uses the same numbers
    position: int = -1  # of its request in the boundary's log

    @property
    def is_helpers(self) -> bool:
        """Was a helper of the test called, and not the implementation?"""
        return self.callee is not None and self.callee._is_helper


class Label(str):
    """The name of an argument that cannot cross the boundary."""

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True)
class Reading:
    """A value that the test read from an object: an attribute, an item, the parameters."""

    value: Any
    owner: Any
    calls_before: int
    position: int = -1  # of its request in the boundary's log


def test_lines() -> list[tuple[str, int]]:
    """The files and lines of the frames that made the current call, innermost first."""
    frame: FrameType | None = sys._getframe(3)
    found: list[tuple[str, int]] = []
    while frame is not None and len(found) < 6:
        found.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return found


Request = tuple[str, Any, list[bytes]]  # the operation, and its packed arguments
Reply = tuple[dict, list[bytes]]


@dataclass(frozen=True)
class Exchange:
    """One request and its reply, packed: enough to send the same request to another implementation."""

    op: str
    tree: Any
    buffers: list[bytes]
    reply: dict
    out: list[bytes]

    @property
    def request(self) -> Request:
        return self.op, self.tree, self.buffers

    def asks(self, request: Request) -> bool:
        """Is this the request, to the bit? 1, 1.0 and True differ."""
        op, tree, buffers = request
        return op == self.op and buffers == self.buffers and repr(tree) == repr(self.tree)

    def is_answered_by(self, answer: Reply) -> bool:
        """Is this the reply, to the bit? A NaN equals itself; of an error, only its type and message count."""
        reply, out = answer
        return out == self.out and repr(_without_place(reply)) == repr(_without_place(self.reply))


def _without_place(reply: dict) -> Any:
    error = reply.get("error")
    return [error.get(part) for part in ("kind", "type", "message")] if isinstance(error, dict) else reply


class HostConnection(Protocol):
    """Carries a request to the host, in process or over a socket."""

    seconds: float  # limit of one answer
    shortcuts: set[str]  # forbidden names that calls have run since this set was last cleared
    import_shortcuts: set[str]  # forbidden names that ran while the chapter was imported; never cleared

    @property
    def started(self) -> bool:
        """False if the next request starts a process."""
        return True

    def exchange(self, op: str, tree: Any, buffers: list[bytes]) -> Reply:
        """Carry out one request."""
        replies: list[Reply] = []
        self.exchange_all([(op, tree, buffers)], replies)
        return replies[0]

    def exchange_all(self, requests: list[Request], replies: list[Reply]) -> None:
        """Carry out several requests, and add each reply to `replies`, also if a later request raises."""

    def abandon(self) -> None:
        """End the host after a malformed reply; the next example starts another one."""

    def close(self) -> None: ...

    @property
    def bytes_received(self) -> int:
        """About how many bytes the host has sent in this example."""


def called(what: str, args: tuple, options: dict) -> str:
    """`MultiHeadAttention(6, 2)`: a call as the name of what it returns, short arguments only."""
    parts = [_brief(value) for value in args] + [f"{name}={_brief(value)}" for name, value in options.items()]
    return f"{what}({', '.join(parts)})"


def _brief(value: Any) -> str:
    if isinstance(value, bool | int | float | str | type(None)):
        text = repr(value)
        return text if len(text) <= 20 else text[:17] + "…"
    return "…"
