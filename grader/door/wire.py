"""Frames over a socket: a JSON head and raw buffers behind it. Nothing that arrives is ever executed or unpickled."""

from __future__ import annotations

import json
import socket
import struct
import time
from typing import Any

from .values import MAX_BYTES

_HEAD = struct.Struct("<4sI")
_MAGIC = b"hdwy"
MAX_HEAD = 64 * 1024 * 1024


class Garbage(Exception):
    """What came is no frame of ours."""


class TooLate(Exception):
    """The deadline passed before the frame was whole."""


def send(sock: socket.socket, body: Any, buffers: list[bytes]) -> None:
    head = json.dumps([body, [len(data) for data in buffers]]).encode()
    sock.sendall(b"".join([_HEAD.pack(_MAGIC, len(head)), head, *buffers]))


def receive(sock: socket.socket, deadline: float | None = None) -> tuple[Any, list[bytes]]:
    """One frame. EOFError when the other side is gone, TooLate past the deadline, Garbage when it is not a frame."""
    magic, size = _HEAD.unpack(_exactly(sock, _HEAD.size, deadline))
    if magic != _MAGIC or size > MAX_HEAD:
        raise Garbage("no frame of the door begins like this")
    try:
        body, sizes = json.loads(_exactly(sock, size, deadline))
        lengths = [int(n) for n in sizes]
    except (ValueError, TypeError, OverflowError, RecursionError) as problem:
        raise Garbage(f"the head of a frame cannot be read: {problem}") from None
    if any(n < 0 for n in lengths) or sum(lengths) > MAX_BYTES:
        raise Garbage("a frame larger than any answer")
    return body, [_exactly(sock, n, deadline) for n in lengths]


def _exactly(sock: socket.socket, size: int, deadline: float | None) -> bytes:
    data = bytearray()
    while len(data) < size:
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TooLate
            sock.settimeout(left)
        try:
            piece = sock.recv(min(size - len(data), 1 << 20))
        except TimeoutError:
            raise TooLate from None
        except ConnectionError:
            raise EOFError from None
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)
