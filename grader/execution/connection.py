"""What crosses between a proxy and its host: requests and replies, and the connection that carries them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

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
