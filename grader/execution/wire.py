"""Frames over a socket: a JSON head, then raw buffers. Nothing that arrives is ever executed or unpickled.

Data from untrusted code is checked before it is parsed: lengths, the number of parts in the head, and the total for one
example.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from typing import Any

from grader.execution.late_calls import BEGINNING
from grader.execution.values import MAX_BYTES, MAX_NODES

_HEAD = struct.Struct("<4sI")
_MAGIC = b"hdwy"
MAX_HEAD = 16 * 1024 * 1024
# bytes of all answers of one example, which the process that runs the tests keeps until the example ends
MAX_EXAMPLE = 64 * 1024 * 1024
HEAD_WEIGHT = 8  # text that is parsed into values takes so many times its length in memory


class MalformedFrame(Exception):
    """The bytes are not a frame of this format, or too many."""


class DeadlinePassed(Exception):
    """The deadline passed before the frame was complete; `beginning` is the beginning of the sender's stack, if that
    came in its place."""

    def __init__(self, beginning: bytes = b"") -> None:
        super().__init__()
        self.beginning = beginning


class Allowance:
    """Counts the bytes that the other side sends in one example, and limits them."""

    def __init__(self, most: int = MAX_EXAMPLE) -> None:
        self.most, self.used = most, 0

    def take(self, size: int) -> None:
        self.used += size
        if self.used > self.most:
            raise MalformedFrame(f"more than {self.most // 2**20} MiB in one example")


def send(sock: socket.socket, body: Any, buffers: list[bytes]) -> None:
    head = json.dumps([body, [len(data) for data in buffers]]).encode()
    sock.sendall(b"".join([_HEAD.pack(_MAGIC, len(head)), head, *buffers]))


def receive(
    sock: socket.socket, deadline: float | None = None, allowance: Allowance | None = None
) -> tuple[Any, list[bytes]]:
    """One frame. EOFError when the other side is gone, DeadlinePassed past the deadline, MalformedFrame when it is not
    a frame or too much."""
    head = _exactly(sock, _HEAD.size, deadline)
    if deadline is not None and BEGINNING.startswith(head):
        raise DeadlinePassed(head)
    magic, size = _HEAD.unpack(head)
    if magic != _MAGIC or size > MAX_HEAD:
        raise MalformedFrame("this is not the beginning of a frame")
    if allowance:
        allowance.take(HEAD_WEIGHT * size)
    head = _exactly(sock, size, deadline)
    if sum(map(head.count, (b",", b"[", b"{"))) > 6 * MAX_NODES:
        raise MalformedFrame("a frame with more parts than any answer")
    try:
        body, lengths = json.loads(head)
    except (ValueError, TypeError, RecursionError):
        raise MalformedFrame("the head of a frame cannot be read") from None
    if (
        not isinstance(lengths, list)
        or not all(type(n) is int and 0 <= n <= MAX_BYTES for n in lengths)
        or sum(lengths) > MAX_BYTES
    ):
        raise MalformedFrame("a frame larger than any answer")
    if allowance:
        allowance.take(sum(lengths))
    return body, [_exactly(sock, n, deadline) for n in lengths]


def _exactly(sock: socket.socket, size: int, deadline: float | None) -> bytes:
    data = bytearray()
    while len(data) < size:
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise DeadlinePassed
            sock.settimeout(left)
        try:
            piece = sock.recv(min(size - len(data), 1 << 20))
        except TimeoutError:
            raise DeadlinePassed from None
        except ConnectionError:
            raise EOFError from None
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)
