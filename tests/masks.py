"""Masks for the keys that a query may attend to, and how much each position of a result changed."""

from __future__ import annotations

import torch
from strategies import tensor


def random_mask(seed, *shape):
    """A mask with both True and False in every row: about half of the keys, at least one, and never all."""
    x = tensor(seed + 101, *shape)
    return ((x > 0) | (x == x.amax(-1, keepdim=True))) & (x != x.amin(-1, keepdim=True))


def key_padding(S, ends):
    """(B, 1, 1, S): real keys, with padding before and after them; `ends` has the numbers of padding for each row of the batch."""
    real = torch.ones(len(ends), 1, 1, S, dtype=torch.bool)
    for row, (left, right) in enumerate(ends):
        real[row, ..., :left] = False
        real[row, ..., S - right :] = False
    return real


def lower_triangle(T):
    return torch.ones(T, T, dtype=torch.bool).tril()


def largest_changes(before, after, axis):
    """By how much each entry along `axis` changed, at most."""
    return [float(d.abs().max()) for d in (after - before).unbind(axis)]
