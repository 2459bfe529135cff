"""Chapter 0 in the terse style: as short as it can be read."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Generator, Tensor


def count_bigrams(ids: Sequence[int] | Tensor, vocab_size: int) -> Tensor:
    ids = torch.as_tensor(ids, dtype=torch.int64)
    if wrong := [i for i in ids.tolist() if not 0 <= i < vocab_size]:
        raise ValueError(f"id {wrong[0]} is outside 0 ... {vocab_size - 1}")
    pairs = ids[:-1] * vocab_size + ids[1:]
    return torch.bincount(pairs, minlength=vocab_size**2).view(vocab_size, vocab_size)


def bigram_probabilities(counts: Tensor, smoothing: float = 1.0) -> Tensor:
    if smoothing < 0:
        raise ValueError(f"smoothing = {smoothing} is negative")
    p = counts.double() + smoothing
    p = p / p.sum(1, keepdim=True)
    return p.nan_to_num(1 / len(p)).float()


def average_loss(probabilities: Tensor, ids: Sequence[int] | Tensor) -> float:
    if len(ids) < 2:
        raise ValueError(f"{len(ids)} ids have no step")
    ids = torch.as_tensor(ids)
    return -probabilities[ids[:-1], ids[1:]].log().mean().item()


def write(probabilities: Tensor, start: int, n: int, generator: Generator | None = None) -> list[int]:
    text = [start]
    for _ in range(n):
        text += torch.multinomial(probabilities[text[-1]], 1, generator=generator).tolist()
    return text
