"""The course in explicit loops: a loop for everything that has an axis, plain lists, appends, and a stack at the end."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Generator, Tensor


def count_bigrams(ids: Sequence[int] | Tensor, vocab_size: int) -> Tensor:
    numbers = []
    for i in ids:
        number = int(i)
        if number < 0 or number >= vocab_size:
            raise ValueError(f"the id {number} does not fit into a vocabulary of {vocab_size}")
        numbers.append(number)
    rows = []
    for _ in range(vocab_size):
        row = []
        for _ in range(vocab_size):
            row.append(0)
        rows.append(row)
    for place in range(len(numbers) - 1):
        rows[numbers[place]][numbers[place + 1]] += 1
    return torch.tensor(rows, dtype=torch.int64)


def bigram_probabilities(counts: Tensor, smoothing: float = 1.0) -> Tensor:
    if smoothing < 0:
        raise ValueError(f"a smoothing of {smoothing} is below zero")
    rows = []
    for row in counts:
        total = 0.0
        for count in row:
            total += float(count) + smoothing
        shares = []
        for count in row:
            if total == 0:
                shares.append(1 / len(row))
            else:
                shares.append((float(count) + smoothing) / total)
        rows.append(torch.tensor(shares, dtype=torch.float32))
    return torch.stack(rows)


def average_loss(probabilities: Tensor, ids: Sequence[int] | Tensor) -> float:
    if len(ids) < 2:
        raise ValueError(f"at least two ids are needed, not {len(ids)}")
    total = 0.0
    for place in range(len(ids) - 1):
        p = float(probabilities[int(ids[place]), int(ids[place + 1])])
        if p == 0:
            return math.inf
        total -= math.log(p)
    return total / (len(ids) - 1)


def write(probabilities: Tensor, start: int, n: int, generator: Generator | None = None) -> list[int]:
    written = [start]
    for _ in range(n):
        row = probabilities[written[-1]]
        drawn = torch.multinomial(row, 1, generator=generator)
        written.append(int(drawn[0]))
    return written
