"""What a rank sends: a group that notes each call, and how many bytes a call sends if the ranks form a ring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class Message:
    """One call of one rank, and the tensor that it gave to it."""

    call: str
    tensor: Tensor

    def ring_bytes(self, size: int) -> float:
        """What this rank sends to its neighbour in all, if `size` ranks do the call in a ring."""
        given = self.tensor.numel() * self.tensor.element_size()
        rounds = {"all_reduce": 2 * (size - 1) / size, "reduce_scatter": (size - 1) / size, "all_gather": size - 1.0}
        return given * rounds.get(self.call, 1.0)


class CountedGroup:
    """A group that notes what this rank gives to its calls, in their order."""

    def __init__(self, group: Any) -> None:
        self.rank, self.size, self._group = group.rank, group.size, group
        self.messages: list[Message] = []

    def all_reduce(self, t: Tensor) -> Tensor:
        self._note("all_reduce", t)
        return self._group.all_reduce(t)

    def all_gather(self, t: Tensor) -> list[Tensor]:
        self._note("all_gather", t)
        return self._group.all_gather(t)

    def reduce_scatter(self, t: Tensor) -> Tensor:
        self._note("reduce_scatter", t)
        return self._group.reduce_scatter(t)

    def broadcast(self, t: Tensor, source: int) -> Tensor:
        self._note("broadcast", t)
        return self._group.broadcast(t, source)

    def send(self, t: Tensor, to: int) -> None:
        self._note("send", t)
        self._group.send(t, to)

    def receive(self, shape: Sequence[int], source: int) -> Tensor:
        return self._group.receive(shape, source)

    def _note(self, call: str, t: Tensor) -> None:
        self.messages.append(Message(call, t.detach().clone()))

    def ring_bytes(self) -> float:
        return sum(message.ring_bytes(self.size) for message in self.messages)


def count_calls(messages: Sequence[Message]) -> dict[str, int]:
    calls = [message.call for message in messages]
    return {call: calls.count(call) for call in dict.fromkeys(calls)}
