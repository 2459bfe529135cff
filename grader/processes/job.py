"""What can be asked of the engine, and what a run answers: lines of JSON."""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Job:
    """One run of the graded tests of an exercise or a chapter on the learner's folder."""

    name: str
    cwd: str  # paths are shown as seen from here
    columns: int = 80
    colour: bool = False
    in_worker: bool = False
    picture: bool = False  # not the tests, but what the exercise computes, drawn


# What comes back, one key a line. First of all, one of these two:
#   accepted  there will be a run
#   stale     the kit has changed since the engine began; it ends now
# Then:
#   text      what pytest prints, a piece at a time
#   begun     the test that is running now
#   verdict   grader.verdict.summary.Verdict as data
#   picture   grader.teaching.show.panels.Picture as data, where that was asked for
#   again     why the run is begun anew, in a process more; everything before is void
#   done      the run is over; pytest's exit status
#   trouble   a sentence: there will be no verdict
# A run tells the engine one thing more, which goes no further:
#   alive     so many seconds may pass before it is heard of again


def encode(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """A message; {} where the line is none."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


class Lines:
    """Whole lines out of the pieces that a socket gives."""

    def __init__(self) -> None:
        self.rest = b""

    def add(self, piece: bytes) -> list[bytes]:
        *whole, self.rest = (self.rest + piece).split(b"\n")
        return whole


def read(sock: socket.socket) -> Iterator[dict[str, Any]]:
    """Messages until the other side hangs up."""
    lines = Lines()
    while True:
        try:
            piece = sock.recv(1 << 16)
        except OSError:
            return
        if not piece:
            return
        yield from map(decode, lines.add(piece))


def again(why: str) -> str:
    """`why` a run began anew, for whoever reads along."""
    return f"Your code brought down the process that tested it: {why}. Testing it once more, in a process of its own:"


def question(job: Any, token: str) -> bytes:
    return encode({"token": token, "job": asdict(job)})


def asked_words(line: bytes, token: str) -> dict[str, Any] | None:
    """What stands in a question; None where it does not come from somebody who knows the token."""
    message = decode(line)
    words = message.get("job")
    known = secrets.compare_digest(str(message.get("token")).encode(), token.encode())
    return words if known and isinstance(words, dict) else None


def asked(line: bytes, token: str) -> Job | None:
    """The job in a question; None where it does not make sense, or comes from somebody who does not know the token."""
    words = asked_words(line, token)
    if words is None:
        return None
    kinds = {"name": str, "cwd": str, "columns": int, "colour": bool, "in_worker": bool, "picture": bool}
    if words.keys() != kinds.keys() or any(type(words[name]) is not kind for name, kind in kinds.items()):
        return None
    return Job(**words)
