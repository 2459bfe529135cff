"""The jobs of a server, and its protocol: lines of JSON."""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, is_dataclass, replace
from typing import Any, Self, get_args, get_origin, get_type_hints


class Job:
    """One run in a separate process. Each type of job is a dataclass; a server's service has a function for each type
    that it runs."""

    def after_crash(self, late: bool = False) -> Self | None:
        """The job to run next if this one's process crashed, or if a call in it was `late`; None if that ends the
        run."""
        return None


@dataclass(frozen=True)
class CheckJob(Job):
    """The graded tests of exercises or chapters on the learner's folder, or on another one."""

    name: str  # of several, with commas between them
    cwd: str  # printed paths are relative to this folder
    columns: int = 80
    lines: int = 0  # of the terminal; 0 if it is printed to something else
    colour: bool = False
    in_worker: bool = False
    cold: bool = False  # this worker starts without the memory of the server, which has the reference
    first: tuple[str, ...] = ()  # tests to run before the others: those that failed last time
    target: str = ""  # the other folder
    was_late: bool = False  # did a call run out of time before? Then further ones get less time

    def after_crash(self, late: bool = False) -> Self | None:
        moved = moved_to_worker(self)
        return replace(moved, was_late=late) if moved else None


@dataclass(frozen=True)
class PictureJob(Job):
    """A picture of what an exercise of the learner's folder computes."""

    name: str
    cwd: str
    in_worker: bool = False
    cold: bool = False  # this worker starts without the memory of the server, which has the reference
    yours_alone: bool = False  # without the reference's, which is not computed either

    def after_crash(self, late: bool = False) -> Self | None:
        return moved_to_worker(self)


def moved_to_worker(job: Any) -> Any:
    """The job with the learner's code in a worker, where a crash or a stall costs only the test it happens in; None if
    it was in a worker already."""
    return None if job.in_worker else replace(job, in_worker=True)


# Messages to the client, each a line with one key. The first is one of these two:
#   accepted  the run will start
#   stale     the kit has changed since the server started; the server ends now
# Then:
#   text      pytest's output, a piece at a time
#   begun     the test that is running now
#   failed    the first test that failed, as soon as it has: its message
#   verdict   grader.verdict.results.Verdict as data; once more after `searching`
#   searching the page is complete, but for a known mistake that is still looked for
#   picture   grader.teaching.show.panels.Picture as data
#   result    the result of another type of job, as data
#   again     why the run starts once more, in another process; discard everything before
#   done      the run is over; pytest's exit status
#   trouble   a sentence that says why there is no verdict
# A client adds one message:
#   restarted a sentence: the server has ended, and the run starts once more on another
# One message of a run is for its server only:
#   alive     so many seconds may pass until the next message


def encode(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """A message; {} if the line is not one."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


class Lines:
    """Joins the pieces that arrive from a socket to whole lines."""

    def __init__(self) -> None:
        self.rest = b""

    def add(self, piece: bytes) -> list[bytes]:
        *whole, self.rest = (self.rest + piece).split(b"\n")
        return whole


def read(sock: socket.socket) -> Iterator[dict[str, Any]]:
    """Messages until the other side closes the connection."""
    lines = Lines()
    while True:
        try:
            piece = sock.recv(1 << 16)
        except OSError:
            return
        if not piece:
            return
        yield from map(decode, lines.add(piece))


def retry_sentence(why: str) -> str:
    """The sentence for a reader that says why a run starts once more."""
    return f"The process that tested your code was lost: {why}. Testing it once more, in a separate process:"


def request(job: Job, token: str = "") -> bytes:
    """The line that requests this job."""
    return encode({"token": token, "type": type(job).__name__, "job": asdict(job)})  # type: ignore[call-overload]


def requested(line: bytes, types: Collection[type[Job]], token: str = "") -> Job | None:
    """The job in a line; None if it is not one of these types, does not fit its type, or has the wrong token."""
    message = decode(line)
    fields = message.get("job")
    known = secrets.compare_digest(str(message.get("token")).encode(), token.encode())
    kind = next((kind for kind in types if kind.__name__ == message.get("type")), None)
    if not known or kind is None or not isinstance(fields, dict):
        return None
    try:
        return _build(kind, fields)
    except (TypeError, KeyError):
        return None


def _build(hint: Any, data: Any) -> Any:
    """The value of this type from the data that `asdict` and JSON made of it. TypeError or KeyError if the data do not
    fit."""
    kind, parts = get_origin(hint) or hint, get_args(hint)
    if is_dataclass(kind) and isinstance(data, dict):
        hints = get_type_hints(kind)
        if data.keys() != hints.keys():
            raise TypeError
        return kind(**{name: _build(hint, data[name]) for name, hint in hints.items()})  # type: ignore[operator]
    if kind in (list, tuple) and type(data) is list:
        return kind(_build(parts[0], part) for part in data)
    if type(data) is kind or (kind is float and type(data) is int):
        return data
    raise TypeError
