# Style: typed and defensive.

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import torch
from torch import Generator, Tensor

COUNT_DTYPE: Final[torch.dtype] = torch.int64


def _as_ints(ids: Sequence[int] | Tensor) -> list[int]:
    """The ids as plain Python integers."""
    return ids.tolist() if isinstance(ids, Tensor) else [int(i) for i in ids]


def count_bigrams(ids: Sequence[int] | Tensor, vocab_size: int) -> Tensor:
    numbers: list[int] = _as_ints(ids)
    for number in numbers:
        if number not in range(vocab_size):
            raise ValueError(f"id {number} is not in range({vocab_size})")
    counts: Tensor = torch.zeros((vocab_size, vocab_size), dtype=COUNT_DTYPE)
    one: Tensor = torch.ones((), dtype=COUNT_DTYPE)
    for this, following in pairwise(numbers):
        counts[this, following] = counts[this, following] + one
    return counts


def bigram_probabilities(counts: Tensor, smoothing: float = 1.0) -> Tensor:
    if not smoothing >= 0:
        raise ValueError(f"smoothing must not be negative, but it is {smoothing}")
    smoothed: Tensor = counts.to(torch.float64) + float(smoothing)
    totals: Tensor = smoothed.sum(dim=-1, keepdim=True)
    empty: Tensor = totals == 0
    safe: Tensor = totals.masked_fill(empty, 1.0)
    shares: Tensor = smoothed / safe
    return shares.masked_fill(empty, 1.0 / counts.size(-1)).to(torch.float32)


def average_loss(probabilities: Tensor, ids: Sequence[int] | Tensor) -> float:
    numbers: list[int] = _as_ints(ids)
    if len(numbers) < 2:
        raise ValueError(f"a text of {len(numbers)} ids has no step to measure")
    steps: list[tuple[int, int]] = list(pairwise(numbers))
    chosen: Tensor = torch.stack([probabilities[this, following] for this, following in steps])
    loss: Tensor = chosen.log().neg().mean()
    return float(loss.item())


def write(probabilities: Tensor, start: int, n: int, generator: Generator | None = None) -> list[int]:
    ids: list[int] = [int(start)]
    while len(ids) < n + 1:
        row: Tensor = probabilities[ids[-1]]
        drawn: Tensor = torch.multinomial(row, num_samples=1, replacement=True, generator=generator)
        ids.append(int(drawn.item()))
    return ids
