"""The connection of a proxy to its host, and what crosses it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Exchange:
    """One request and its reply, packed: enough to send the same request to another implementation."""

    op: str
    tree: Any
    buffers: list[bytes]
    reply: dict
    out: list[bytes]


class HostConnection(Protocol):
    """Carries a request to the host, in process or over a socket."""

    seconds: float  # limit of one answer
    shortcuts: set[str]  # forbidden names that calls have run since this set was last cleared
    import_shortcuts: set[str]  # forbidden names that ran while the chapter was imported; never cleared

    def exchange(self, op: str, tree: Any, buffers: list[bytes]) -> tuple[dict, list[bytes]]: ...

    def abandon(self) -> None:
        """End the host after a malformed reply; the next example starts another one."""

    def close(self) -> None: ...

    @property
    def bytes_received(self) -> int:
        """About how many bytes the host has sent in this example."""


class BoundaryLike(Protocol):
    """What Implementation needs of a boundary."""

    @property
    def names(self) -> set[str]: ...

    def ask(self, op: str, *arguments: Any, path: str = "") -> Any: ...
