"""A simulated group: one thread for each rank, of which one runs at a time, in an order that is always the same.

A rank runs until it must wait for another one; then the next rank that can go on runs. So a test gives the same result
every time, what was sent can be counted, and a deadlock is seen at once: no rank can go on.
"""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor


class GroupProblem(RuntimeError):
    """The ranks do not fit together: they wait for each other, or their calls differ. The message says which calls."""


class _Stopped(BaseException):
    """Ends a rank because another one has failed."""


@dataclass
class CallCount:
    """What one rank has sent."""

    calls: list[str] = field(default_factory=list)  # names, in their order
    bytes: int = 0  # of the tensors that it gave to send and to collective calls
    sent_to: list[int] = field(default_factory=list)  # ranks, one for each send


@dataclass
class _Rank:
    number: int
    may_run: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None
    waits_in: str = ""  # the call in which it waits
    can_go_on: Callable[[], bool] | None = None
    is_done: bool = False
    result: Any = None
    count: CallCount = field(default_factory=CallCount)

    def __str__(self) -> str:
        if self.is_done:
            return f"rank {self.number} has ended after {len(self.count.calls)} calls"
        return f"rank {self.number} waits in {self.waits_in} (call {len(self.count.calls)})"


class Group:
    """The group as one rank sees it."""

    def __init__(self, simulation: _Simulation, rank: int) -> None:
        self._simulation, self.rank, self.size = simulation, rank, len(simulation.ranks)
        self.count = simulation.ranks[rank].count

    def all_reduce(self, t: Tensor) -> Tensor:
        return _sum(self._collect("all_reduce", t))

    def all_gather(self, t: Tensor) -> list[Tensor]:
        return [part.clone() for part in self._collect("all_gather", t)]

    def reduce_scatter(self, t: Tensor) -> Tensor:
        if t.dim() == 0 or t.size(0) % self.size:
            raise GroupProblem(f"reduce_scatter cuts the first axis of {_shape(t)} into {self.size} equal parts")
        return _sum(self._collect("reduce_scatter", t)).chunk(self.size)[self.rank].clone()

    def broadcast(self, t: Tensor, source: int) -> Tensor:
        self._check_rank(source, "broadcast")
        return self._collect(f"broadcast from {source}", t)[source].clone()

    def send(self, t: Tensor, to: int) -> None:
        self._check_rank(to, "send")
        self._simulation.send(self.rank, to, t.detach().clone())

    def receive(self, shape: Sequence[int], source: int) -> Tensor:
        self._check_rank(source, "receive")
        return self._simulation.receive(self.rank, tuple(shape), source)

    def _collect(self, name: str, t: Tensor) -> list[Tensor]:
        return self._simulation.collect(self.rank, name, t.detach().clone())

    def _check_rank(self, other: int, name: str) -> None:
        if not 0 <= other < self.size:
            raise GroupProblem(f"rank {self.rank} calls {name} with rank {other}; there are ranks 0 to {self.size - 1}")


def run_ranks(function: Callable[[Group], Any], size: int) -> tuple[list[Any], list[CallCount]]:
    """Run `function(group)` on every rank; return the results and what each rank has sent, in the order of the ranks.

    If a rank raises an exception, the others end, and it is raised here. GroupProblem: see above."""
    return _Simulation(function, size).run()


class _Simulation:
    def __init__(self, function: Callable[[Group], Any], size: int) -> None:
        self.function, self.ranks = function, [_Rank(number) for number in range(size)]
        self.mailboxes: dict[tuple[int, int], deque[Tensor]] = {}
        self.arrived: dict[int, tuple[str, Tensor]] = {}  # in the collective call that is going on
        self.collected: dict[int, list[Tensor]] = {}
        self.problem: BaseException | None = None
        self.ended = threading.Event()

    def run(self) -> tuple[list[Any], list[CallCount]]:
        for rank in self.ranks:
            rank.thread = threading.Thread(target=self._run_rank, args=(rank,), daemon=True, name=f"rank {rank.number}")
            rank.thread.start()
        self.ranks[0].may_run.set()
        try:
            self.ended.wait()
        finally:
            self._end()
        if self.problem is not None:
            raise self.problem
        return [rank.result for rank in self.ranks], [rank.count for rank in self.ranks]

    def _end(self) -> None:
        """End the threads, also after an exception in this one, such as that of a time limit."""
        if not self.ended.is_set():
            self.problem = self.problem or GroupProblem("the group was stopped")
        for rank in self.ranks:
            rank.may_run.set()
            if not self.ended.is_set() and rank.thread and rank.thread.ident:
                thread = ctypes.c_ulong(rank.thread.ident)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(_Stopped))
        for rank in self.ranks:
            if rank.thread:
                rank.thread.join(timeout=1.0)

    def _run_rank(self, rank: _Rank) -> None:
        try:
            self._wait_for_turn(rank)
            rank.result = self.function(Group(self, rank.number))
        except _Stopped:
            return
        except BaseException as problem:
            self._fail(problem)
            return
        rank.is_done = True
        self._pass_on(rank)

    def _fail(self, problem: BaseException) -> None:
        self.problem = self.problem or problem
        self.ended.set()
        for rank in self.ranks:
            rank.may_run.set()

    def _wait_for_turn(self, rank: _Rank) -> None:
        rank.may_run.wait()
        rank.may_run.clear()
        if self.problem is not None:
            raise _Stopped

    def _pass_on(self, rank: _Rank) -> None:
        """Let the next rank run that can go on."""
        size = len(self.ranks)
        for step in range(1, size + 1):
            following = self.ranks[(rank.number + step) % size]
            if not following.is_done and (following.can_go_on is None or following.can_go_on()):
                following.may_run.set()
                return
        if all(each.is_done for each in self.ranks):
            self.ended.set()
            return
        self._fail(GroupProblem("no rank can go on: " + ", ".join(map(str, self.ranks))))

    def _wait(self, rank: _Rank, call: str, can_go_on: Callable[[], bool]) -> None:
        rank.waits_in, rank.can_go_on = call, can_go_on
        self._pass_on(rank)
        self._wait_for_turn(rank)
        rank.can_go_on = None

    def _begin(self, number: int, name: str, sent: Tensor | None) -> _Rank:
        if self.problem is not None:
            raise _Stopped
        rank = self.ranks[number]
        rank.count.calls.append(name.partition(" ")[0])
        rank.count.bytes += sent.numel() * sent.element_size() if sent is not None else 0
        return rank

    def send(self, number: int, to: int, t: Tensor) -> None:
        self._begin(number, "send", t).count.sent_to.append(to)
        self.mailboxes.setdefault((number, to), deque()).append(t)

    def receive(self, number: int, shape: tuple[int, ...], source: int) -> Tensor:
        rank = self._begin(number, "receive", None)
        box = self.mailboxes.setdefault((source, number), deque())
        if not box:
            self._wait(rank, f"receive from {source}", lambda: bool(box))
        t = box.popleft()
        if tuple(t.shape) != shape:
            raise GroupProblem(f"rank {number} receives {shape} from rank {source}, which sent {_shape(t)}")
        return t

    def collect(self, number: int, name: str, t: Tensor) -> list[Tensor]:
        """The tensors of all ranks, once all of them have made this call."""
        rank = self._begin(number, name, t)
        for other, (call, theirs) in self.arrived.items():
            mine, yours = f"{name} of {_shape(t)} {_dtype(t)}", f"{call} of {_shape(theirs)} {_dtype(theirs)}"
            if mine != yours:
                place = len(self.ranks[other].count.calls)
                raise GroupProblem(
                    f"the calls do not fit: rank {other} calls {yours} (call {place}), and rank {number} calls {mine} "
                    f"(call {len(rank.count.calls)})"
                )
        self.arrived[number] = name, t
        if len(self.arrived) == len(self.ranks):
            every = [self.arrived[other][1] for other in range(len(self.ranks))]
            self.collected = {other: every for other in range(len(self.ranks)) if other != number}
            self.arrived = {}
            return every
        self._wait(rank, name, lambda: number in self.collected)
        return self.collected.pop(number)


def _sum(every: list[Tensor]) -> Tensor:
    return torch.stack(every).sum(dim=0, dtype=every[0].dtype)


def _shape(t: Tensor) -> str:
    return str(tuple(t.shape))


def _dtype(t: Tensor) -> str:
    return str(t.dtype).removeprefix("torch.")
