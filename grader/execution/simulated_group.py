"""A simulated group: one thread for each rank, of which one runs at a time, in an order that is always the same.

A rank runs until it needs an answer from the others; then the next rank that can go on runs. So a test gives the same
result every time, and a deadlock is seen at once: no rank can go on.

`Ranks` has the threads, and `run_group` decides what arrives where. In a test only `Ranks` is in the process of the
tested code: what a rank sends is counted, and may be changed on its way, where this code cannot reach it.
"""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

import torch
from grader.counts import format_count
from torch import Tensor

END = "end"  # in place of the name of a call: the rank has ended


class GroupProblem(RuntimeError):
    """The ranks do not fit together: they wait for each other, or their calls differ. The message says which calls."""


class _Stopped(BaseException):
    """Ends a rank because another one has failed."""


# ---- the ranks


class Group:
    """The group as one rank sees it."""

    def __init__(self, rank: RankThread, size: int) -> None:
        self._thread, self.rank, self.size = rank, rank.number, size

    def all_reduce(self, t: Tensor) -> Tensor:
        return self._thread.ask("all_reduce", t.detach().clone(), None)

    def all_gather(self, t: Tensor) -> list[Tensor]:
        return self._thread.ask("all_gather", t.detach().clone(), None)

    def reduce_scatter(self, t: Tensor) -> Tensor:
        if t.dim() == 0 or t.size(0) % self.size:
            raise GroupProblem(f"reduce_scatter cuts the first axis of {_shape(t)} into {self.size} equal parts")
        return self._thread.ask("reduce_scatter", t.detach().clone(), None)

    def broadcast(self, t: Tensor, source: int) -> Tensor:
        self._check_rank(source, "broadcast")
        return self._thread.ask("broadcast", t.detach().clone(), source)

    def send(self, t: Tensor, to: int) -> None:
        self._check_rank(to, "send")
        self._thread.calls.append(("send", t.detach().clone(), to))

    def receive(self, shape: Sequence[int], source: int) -> Tensor:
        self._check_rank(source, "receive")
        return self._thread.ask("receive", tuple(shape), source)

    def _check_rank(self, other: int, name: str) -> None:
        if not 0 <= other < self.size:
            raise GroupProblem(f"rank {self.rank} calls {name} with rank {other}; there are ranks 0 to {self.size - 1}")


class RankThread:
    """The thread of one rank. It and the thread that advances it take turns."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.calls: list[tuple] = []  # since its turn began
        self.answers: SimpleQueue = SimpleQueue()
        self.turns: SimpleQueue = SimpleQueue()  # what it gives back at the end of each turn
        self.thread: threading.Thread | None = None
        self.has_ended = False

    def run(self, function: Callable[[Group], Any], size: int) -> None:
        try:
            self.wait_for_turn()
            result = function(Group(self, size))
            turn: Any = [*self.calls, (END, result, None)]
        except BaseException as problem:
            turn = problem
        self.has_ended = True
        self.turns.put(turn)

    def ask(self, *call: Any) -> Any:
        """End this turn with a call that needs an answer, and return the answer."""
        calls, self.calls = [*self.calls, call], []
        self.turns.put(calls)
        return self.wait_for_turn()

    def wait_for_turn(self) -> Any:
        answer = self.answers.get()  # threads.py knows a thread that waits in this function
        if isinstance(answer, BaseException):
            raise answer
        return answer


class Ranks:
    """Runs `function(group)` on every rank, each in turns that `advance` begins."""

    def __init__(self, function: Callable[[Group], Any], size: int) -> None:
        self._ranks = [RankThread(number) for number in range(size)]
        for rank in self._ranks:
            rank.thread = threading.Thread(
                target=rank.run, args=(function, size), daemon=True, name=f"rank {rank.number}"
            )
            rank.thread.start()

    def advance(self, number: int, answer: Any = None, problem: str = "") -> list[tuple]:
        """Let a rank go on with the answer that it waits for, or with a GroupProblem.

        Returns its calls up to the next that needs an answer: each has its name, what it sends (of `receive`, the
        shape), and the other rank. The last one may be END with the function's result. An exception of the rank ends
        the others, and is raised here."""
        rank = self._ranks[number]
        if rank.has_ended:
            raise GroupProblem(f"rank {number} has ended")
        if isinstance(answer, Tensor):  # the rank may change its answer, and the caller keeps its own
            answer = answer.clone()
        elif isinstance(answer, list | tuple):
            answer = [part.clone() for part in answer]
        try:
            rank.answers.put(GroupProblem(problem) if problem else answer)
            turn = rank.turns.get()
            if isinstance(turn, BaseException):
                raise turn
        except BaseException:  # also that of a time limit
            self.stop()
            raise
        if rank.has_ended and rank.thread:
            rank.thread.join()
        return turn

    def stop(self) -> None:
        """End all ranks."""
        for rank in self._ranks:
            if rank.thread and rank.thread.is_alive():
                rank.answers.put(_Stopped())
        for rank in self._ranks:
            if rank.thread:
                rank.thread.join(timeout=0.05)
                if rank.thread.is_alive() and rank.thread.ident:  # it does not wait: it was interrupted in its turn
                    thread = ctypes.c_ulong(rank.thread.ident)
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(_Stopped))
                    rank.thread.join(timeout=1.0)

    def __del__(self) -> None:
        # ends those that wait. None is joined: the collector may have come in the middle of the code of threading
        for rank in self._ranks:
            rank.answers.put(_Stopped())


# ---- what they send each other


@dataclass
class CallCount:
    """What one rank has sent."""

    calls: list[str] = field(default_factory=list)  # names, in their order
    bytes: int = 0  # of the tensors that it gave to send and to collective calls
    sent_to: list[int] = field(default_factory=list)  # ranks, one for each send
    sent: list[Tensor] = field(default_factory=list)  # the tensors, one for each call but receive
    received: list[Tensor] = field(default_factory=list)  # one for each receive


def run_ranks(function: Callable[[Group], Any], size: int) -> tuple[list[Any], list[CallCount]]:
    """Run `function(group)` on every rank; return the results and what each rank has sent, in the order of the ranks.

    If a rank raises an exception, the others end, and it is raised here. GroupProblem: see above."""
    ranks = Ranks(function, size)
    try:
        return run_group(ranks.advance, size)
    finally:
        ranks.stop()


def run_group(
    advance: Callable[..., Sequence[tuple]], size: int, change: Callable[[int, int, Tensor], Tensor] | None = None
) -> tuple[list[Any], list[CallCount]]:
    """The same of ranks that `advance` lets go on. What a rank sends to others arrives as `change(rank, number, t)`;
    its calls of one name are numbered from 1."""
    exchange, results, rank = _Exchange(size, change), [None] * size, 0
    while exchange.ready:
        for name, sent, other in advance(rank, *exchange.ready.pop(rank)):
            if name == END:
                exchange.waits_in[rank], results[rank] = "", sent
            else:
                exchange.make(rank, name, sent, other)
        following = [(rank + step) % size for step in range(size)]
        rank = next((each for each in following if each in exchange.ready), rank)
    if waiting := [number for number, call in enumerate(exchange.waits_in) if call]:
        problem = "no rank can go on: " + ", ".join(map(exchange.describe, range(size)))
        advance(waiting[0], None, problem)
        raise GroupProblem(problem)
    return results, exchange.counts


class _Exchange:
    """The tensors that are on their way, and which ranks wait for which."""

    def __init__(self, size: int, change: Callable[[int, int, Tensor], Tensor] | None) -> None:
        self.size, self.change = size, change
        self.counts = [CallCount() for _ in range(size)]
        self.waits_in = ["the beginning"] * size  # the call that each rank waits in; "" if it has ended
        # the ranks that can go on: the answer of each, or a problem
        self.ready: dict[int, tuple] = {number: () for number in range(size)}
        self.mailboxes: dict[tuple[int, int], deque[Tensor]] = {}
        self.expected: dict[int, tuple[tuple[int, ...], int]] = {}  # rank that waits for a message → its shape, source
        self.arrived: dict[int, tuple[str, Tensor]] = {}  # in the collective call that is going on

    def describe(self, number: int) -> str:
        calls = len(self.counts[number].calls)
        if not self.waits_in[number]:
            return f"rank {number} has ended after {format_count(calls, 'call')}"
        return f"rank {number} waits in {self.waits_in[number]} (call {calls})"

    def make(self, number: int, name: str, sent: Any, other: Any) -> None:
        """Make one call of a rank."""
        count = self.counts[number]
        count.calls.append(name)
        if name == "receive":
            self.waits_in[number], self.expected[number] = f"receive from {other}", (tuple(sent), other)
            self._deliver(number)
            return
        count.bytes += sent.numel() * sent.element_size()
        count.sent.append(sent)
        if name == "send":
            count.sent_to.append(other)
            self.mailboxes.setdefault((number, other), deque()).append(self._on_its_way(number, sent))
            if self.expected.get(other, (None, None))[1] == number:
                self._deliver(other)
        else:
            self._collect(number, name if other is None else f"{name} from {other}", sent, other)

    def _on_its_way(self, number: int, t: Tensor) -> Tensor:
        calls = self.counts[number].calls
        return self.change(number, calls.count(calls[-1]), t) if self.change else t

    def _deliver(self, number: int) -> None:
        shape, source = self.expected[number]
        if box := self.mailboxes.get((source, number)):
            del self.expected[number]
            t = box.popleft()
            problem = f"rank {number} receives {shape} from rank {source}, which sent {_shape(t)}"
            self.ready[number] = (t,) if tuple(t.shape) == shape else (None, problem)
            self.counts[number].received.append(t)

    def _collect(self, number: int, call: str, t: Tensor, source: int | None) -> None:
        self.waits_in[number] = call
        for other, (theirs, tensor) in self.arrived.items():
            mine, yours = f"{call} of {_shape(t)} {_dtype(t)}", f"{theirs} of {_shape(tensor)} {_dtype(tensor)}"
            if mine != yours:
                places = [len(self.counts[each].calls) for each in (other, number)]
                self.ready[number] = None, (
                    f"the calls do not fit: rank {other} calls {yours} (call {places[0]}), and rank {number} calls "
                    f"{mine} (call {places[1]})"
                )
                return
        self.arrived[number] = call, t
        if len(self.arrived) < self.size:
            return
        every = [self.arrived[each][1] for each in range(self.size)]
        self.arrived = {}
        changed = [self._on_its_way(each, t) for each, t in enumerate(every)]
        for each in range(self.size):
            parts = [t if other == each else changed[other] for other, t in enumerate(every)]
            self.ready[each] = (self._answer(call.partition(" ")[0], parts, each, source),)

    def _answer(self, name: str, parts: list[Tensor], number: int, source: int | None) -> Any:
        if name == "all_gather":
            return parts
        if name == "broadcast":
            return parts[source or 0]
        total = torch.stack(parts).sum(dim=0, dtype=parts[0].dtype)
        return total if name == "all_reduce" else total.chunk(self.size)[number]


def _shape(t: Tensor) -> str:
    return str(tuple(t.shape))


def _dtype(t: Tensor) -> str:
    return str(t.dtype).removeprefix("torch.")
