"""Softmax and its neighbours as a library without fusion computes them: one kernel for each operation.

Each program has a row of `columns` numbers, at most BLOCK, and each kernel writes its result back to memory.
"""

from __future__ import annotations

from typing import Any

import torch
from grader.execution.simulated_gpu import Traffic, launch
from torch import Tensor


def row_places(tl: Any, columns: int, BLOCK: int) -> tuple[Any, Any]:
    """Return the places of this program's row, and the mask that leaves out what is beyond it."""
    j = tl.arange(0, BLOCK)
    return tl.program_id(0) * columns + j, j < columns


def maximum_kernel(tl: Any, x: Any, out: Any, columns: int, BLOCK: int) -> None:
    at, inside = row_places(tl, columns, BLOCK)
    tl.store(out + tl.program_id(0), tl.max(tl.load(x + at, mask=inside, other=-float("inf")), axis=0))


def subtract_kernel(tl: Any, x: Any, of_row: Any, out: Any, columns: int, BLOCK: int) -> None:
    at, inside = row_places(tl, columns, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=inside) - tl.load(of_row + tl.program_id(0)), mask=inside)


def exp_kernel(tl: Any, x: Any, out: Any, columns: int, BLOCK: int) -> None:
    at, inside = row_places(tl, columns, BLOCK)
    tl.store(out + at, tl.exp(tl.load(x + at, mask=inside)), mask=inside)


def sum_kernel(tl: Any, x: Any, out: Any, columns: int, BLOCK: int) -> None:
    at, inside = row_places(tl, columns, BLOCK)
    tl.store(out + tl.program_id(0), tl.sum(tl.load(x + at, mask=inside, other=0.0), axis=0))


def divide_kernel(tl: Any, x: Any, of_row: Any, out: Any, columns: int, BLOCK: int) -> None:
    at, inside = row_places(tl, columns, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=inside) / tl.load(of_row + tl.program_id(0)), mask=inside)


def add_softmax_kernel(tl: Any, x: Any, y: Any, out: Any, columns: int, BLOCK: int) -> None:
    """Write the softmax of x + y: the sum is never in memory."""
    at, inside = row_places(tl, columns, BLOCK)
    row = tl.load(x + at, mask=inside, other=-float("inf")) + tl.load(y + at, mask=inside, other=0.0)
    powers = tl.exp(row - tl.max(row, axis=0))
    tl.store(out + at, powers / tl.sum(powers, axis=0), mask=inside)


def softmax_in_steps(x: Tensor, BLOCK: int) -> tuple[Tensor, dict[str, Traffic]]:
    """Return the softmax of each row of x, and what each of the five operations has moved."""
    rows, columns = x.shape
    best, total = torch.zeros(rows), torch.zeros(rows)
    shifted, e, out = torch.zeros_like(x), torch.zeros_like(x), torch.zeros_like(x)
    calls = {
        "maximum": (maximum_kernel, x, best),
        "difference": (subtract_kernel, x, best, shifted),
        "exp": (exp_kernel, shifted, e),
        "sum": (sum_kernel, e, total),
        "division": (divide_kernel, e, total, out),
    }
    moved = {name: launch(kernel, (rows,), *given, columns, BLOCK=BLOCK) for name, (kernel, *given) in calls.items()}
    return out, moved
