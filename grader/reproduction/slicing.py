"""Chooses the requests of a failed example that a script repeats: as few as give the same replies.

The fewest are the requests that made the objects in use and set their values. Whether they are enough is tried: the requests are sent to the same code
again. If the replies differ (a random state, a cache, a global variable), the script also repeats the earlier calls of the same objects, and last of all
every earlier request.
"""

from __future__ import annotations

import contextlib
import io
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from grader.execution.errors import ChapterBroken, HostDied, OutOfTime
from grader.execution.host_connection import HostConnection
from grader.reproduction.example import FailedExample

REPLAY_SECONDS = 1.5  # for all tries; then the script repeats the earlier calls of the same objects
OTHER_SEEDS = (1, 2)  # added to the example's seed: do the replies depend on it?
_CALLS = ("call", "gradients")
_CHANGES = ("fill", "set_attribute", "set_item")
Request = tuple[str, Any, list[bytes]]


@dataclass(frozen=True)
class Slice:
    places: tuple[int, ...]  # of the requests, in their order; the failed ones are the last
    seeded: bool = True  # do the replies depend on the random state at the start of the example?
    exact: bool = False  # was it tried, with the same replies?


def choose_slice(example: FailedExample, connect: Callable[[], HostConnection] | None) -> Slice:
    """The smallest slice that gives the same replies. `connect` starts a host with the same code; without it nothing is tried."""
    if example.kind == "import":
        return Slice((), seeded=False)
    graph = _Graph(example.requests, [exchange.reply for exchange in example.log])
    tries = list(dict.fromkeys((graph.slice(example.positions, False), graph.slice(example.positions, True), tuple(range(max(example.positions) + 1)))))
    usual = tries[min(1, len(tries) - 1)]
    if connect is None or example.kind == "time" or example.unanswered is not None:
        return Slice(usual)
    began = time.monotonic()
    connection = None
    try:
        with _undisturbed():
            connection = connect()
            for places in tries:
                found = _repeat(example, places, connection, example.seed)
                if found.same:
                    seeded = found.drew or any(
                        time.monotonic() - began > REPLAY_SECONDS or not _repeat(example, places, connection, example.seed + more).same for more in OTHER_SEEDS
                    )
                    return Slice(places, seeded, exact=True)
                if time.monotonic() - began > REPLAY_SECONDS:
                    break
    except (OutOfTime, HostDied, ChapterBroken, _Differs):
        pass
    finally:
        if connection is not None:
            with contextlib.suppress(HostDied):
                connection.close()
    return Slice(usual)


class _Differs(Exception):
    """An object that a request needs was not made."""


@dataclass(frozen=True)
class _Repetition:
    same: bool  # were the replies those of the example?
    drew: bool = False  # did a call that made no object draw random numbers? An object's first values are mostly replaced


def _repeat(example: FailedExample, places: tuple[int, ...], connection: HostConnection, seed: int) -> _Repetition:
    """Send these requests again."""
    exercise = example.exercise
    connection.exchange("load", [], [])
    connection.exchange("begin", [seed, [], exercise.gradient], [])
    numbers: dict[int, int] = {}  # of an object: in the example, and now
    drew = False
    try:
        for place in places:
            exchange = example.log[place]
            watched = exchange.op in _CALLS and not drew and not _handles(exchange.reply.get("value"))
            before = connection.exchange("random_state", [], [])[0] if watched else {}
            reply, out = connection.exchange(exchange.op, _renumber(exchange.tree, numbers), exchange.buffers)
            drew = drew or watched and connection.exchange("random_state", [], [])[0] != before
            if place in example.positions and not _same_reply(reply, out, exchange.reply, exchange.out):
                return _Repetition(False)
            if ("error" in reply) != ("error" in exchange.reply):
                return _Repetition(False)
            for old, new in zip(_handles(exchange.reply.get("value")), _handles(reply.get("value"))):
                numbers[old] = new
    except _Differs:
        return _Repetition(False)
    return _Repetition(True, drew)


def _same_reply(reply: dict, out: list[bytes], before: dict, out_before: list[bytes]) -> bool:
    if "error" in reply and "error" in before:
        return all(reply["error"][part] == before["error"][part] for part in ("type", "message"))
    none: dict[int, int] = dict.fromkeys([*_handles(reply.get("value")), *_handles(before.get("value"))], 0)
    return out == out_before and repr(_renumber(reply, none)) == repr(_renumber(before, none))


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """The code prints nothing, and no debugger starts."""
    hook = sys.breakpointhook
    sys.breakpointhook = lambda *_, **__: None
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        sys.breakpointhook = hook


def _renumber(tree: Any, numbers: dict[int, int]) -> Any:
    if isinstance(tree, list):
        return [_renumber(part, numbers) for part in tree]
    if not isinstance(tree, dict):
        return tree
    if "handle" in tree:
        number, label = tree["handle"]
        if number not in numbers:
            raise _Differs
        return {"handle": [numbers[number], label]}
    return {kind: _renumber(body, numbers) if kind not in ("tensor", "error") else body for kind, body in tree.items()}


def _handles(tree: Any) -> list[int]:
    """The numbers of the objects in a packed value, in order."""
    if isinstance(tree, list):
        return [number for part in tree for number in _handles(part)]
    if not isinstance(tree, dict):
        return []
    if "handle" in tree:
        return [tree["handle"][0]]
    return [number for kind, body in tree.items() if kind != "tensor" for number in _handles(body)]


class _Graph:
    """Which request made which object, and which objects may change together."""

    def __init__(self, requests: list[Request], replies: list[dict]) -> None:
        self.requests = requests
        self.needs = [_handles(tree) for _, tree, _ in requests]
        self.makes = [_handles(reply.get("value")) for reply in replies] + [[]] * (len(requests) - len(replies))
        self.maker: dict[int, int] = {}
        self.constant: set[int] = set()  # functions and classes: calling one does not change it
        self.group: dict[int, int] = {}
        for place, (op, _, _) in enumerate(requests):
            for number in self.makes[place]:
                self.maker.setdefault(number, place)
                if op in ("get", "bring"):
                    self.constant.add(number)
            self._join(number for number in [*self.needs[place], *self.makes[place]] if number not in self.constant)

    def _join(self, numbers: Iterable[int]) -> None:
        roots = [self._root(number) for number in numbers]
        for root in roots[1:]:
            self.group[root] = roots[0]

    def _root(self, number: int) -> int:
        while (above := self.group.get(number, number)) != number:
            number = above
        return number

    def slice(self, positions: tuple[int, ...], with_calls: bool) -> tuple[int, ...]:
        """The failed requests, what made their objects, and what changed these; `with_calls` also their earlier calls."""
        chosen: set[int] = set()
        waiting = list(positions)
        while waiting:
            place = waiting.pop()
            if place in chosen:
                continue
            chosen.add(place)
            waiting += [self.maker[number] for number in self.needs[place] if number in self.maker]
            own = {self._root(number) for number in self.needs[place] if number not in self.constant}
            for earlier in range(place):
                op = self.requests[earlier][0]
                if op in _CHANGES or (with_calls and op in _CALLS):
                    touched = self.needs[earlier] + self.makes[earlier]
                    if own & {self._root(number) for number in touched if number not in self.constant}:
                        waiting.append(earlier)
        return tuple(sorted(chosen))
