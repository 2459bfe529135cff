"""What the programs of a launch read and write, as counts for each number of a tensor."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from grader.execution.simulated_gpu import Traffic
from torch import Tensor


def count_accesses(traffic: Traffic, kind: str, name: str, size: int, program: Sequence[int] | None = None) -> Tensor:
    """Return how often each of the first `size` numbers of a tensor is read ("load") or written ("store").

    With `program`, only what this program does is counted.
    """
    counts = torch.zeros(size)
    for each in traffic.accesses:
        if each.kind == kind and each.name == name and program in (None, each.program):
            counts += torch.bincount(each.at, minlength=size)
    return counts


def program_order(traffic: Traffic) -> list[tuple[int, ...]]:
    """Return the programs in the order in which they ran."""
    return list(dict.fromkeys(each.program for each in traffic.accesses))
