"""What a rank sends: a group that notes each call, and how many bytes a call sends if the ranks form a ring."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

    def __getattr__(self, call: str) -> Callable[..., Any]:
        make_call = getattr(self._group, call)

        def counted(given: Any, *arguments: Any) -> Any:
            if call != "receive":  # which is given a shape
                self.messages.append(Message(call, given.detach().clone()))
            return make_call(given, *arguments)

        return counted

    def ring_bytes(self) -> float:
        return sum(message.ring_bytes(self.size) for message in self.messages)


def count_calls(messages: Sequence[Message]) -> dict[str, int]:
    calls = [message.call for message in messages]
    return {call: calls.count(call) for call in dict.fromkeys(calls)}
