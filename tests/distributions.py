"""Logits that have given probabilities, and whether draws are distributed as they should be."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping

import torch
from grader.verdict.comparing import holds
from torch import Tensor


def logits_of(*probabilities: float) -> Tensor:
    """Logits whose softmax these are; -inf where it is 0."""
    return torch.tensor(probabilities, dtype=torch.float64).log().float()


CHANCE = 1e-9  # that one test of draws refuses right code


def divergence_limit(cells: int, chance: float = CHANCE) -> float:
    """The limit that half of the chi-square statistic G = 2 n KL(observed || expected) of n independent draws passes with at most this chance.

    For d = cells - 1 and t > d, the probability that n KL >= t is at most (e t / d)^d e^-t, for each n and each distribution (Agrawal, "Finite-sample
    concentration of the multinomial in relative entropy", 2020). It is a bound, not an approximation for many draws as the chi-square table is.
    The bound falls as t grows, so bisection finds the t where it is `chance`: 28.0 for 3 cells, 42.0 for 9.
    """
    d = cells - 1
    low, high = float(d), 40.0 * d + 400.0
    for _ in range(60):
        t = (low + high) / 2
        low, high = (low, t) if d * (1 + math.log(t / d)) - t < math.log(chance) else (t, high)
    return high


def check_frequencies(counts: Mapping[Hashable, int], expected: Mapping[Hashable, float], what: str) -> None:
    """The outcomes of independent draws have these probabilities: the likelihood-ratio chi-square test. Cells that expect fewer than five are one cell."""
    n = sum(counts.values())
    strange = next((cell for cell in counts if expected.get(cell, 0.0) <= 0), None)
    holds(strange is None, f"{what}: {strange} is impossible, and it occurred {counts.get(strange, 0)} times in {n} draws")
    rare = [cell for cell, p in expected.items() if n * p < 5]
    cells = [(str(cell), counts.get(cell, 0), p) for cell, p in expected.items() if n * p >= 5]
    if rare:
        cells.append(("any of the rare ones", sum(counts.get(cell, 0) for cell in rare), sum(expected[cell] for cell in rare)))
    terms = {name: (seen * math.log(seen / (n * p)) if seen else 0.0) for name, seen, p in cells if p > 0}
    name, seen, p = max(cells, key=lambda cell: abs(cell[1] - n * cell[2]) / math.sqrt(n * cell[2] + 1e-9))
    limit = divergence_limit(len(terms)) if len(terms) > 1 else math.inf
    holds(sum(terms.values()) < limit, f"{what}: {name} should have probability {p:.3f}; it occurred {seen} times in {n} draws")
