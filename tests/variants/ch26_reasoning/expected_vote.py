# variant: polynomials as lists, coefficient by coefficient
from math import factorial


def expected_vote(probabilities, n):
    p = [float(x) for x in probabilities]
    if n < 1:
        raise ValueError(f"n must be at least 1, not {n}")
    if not p or any(x < 0 for x in p) or sum(p) > 1 + 1e-6:
        raise ValueError(f"bad probabilities {p}")
    rest = max(0.0, 1 - sum(p))
    answer = 0.0
    for c in range(1, n + 1):
        left = n - c
        # by[t][m]: t wrong answers have c votes each, m draws are used, divided by the factorials
        by = [[0.0] * (left + 1) for _ in p]
        by[0][0] = 1.0
        for q in p[1:]:
            new = [[0.0] * (left + 1) for _ in p]
            for t, row in enumerate(by):
                for m, value in enumerate(row):
                    if value == 0:
                        continue
                    for k in range(min(c, left - m) + 1):
                        new[t + (k == c)][m + k] += value * q**k / factorial(k)
            by = new
        for t, row in enumerate(by):
            for m, value in enumerate(row):
                answer += value * rest ** (left - m) / factorial(left - m) / (t + 1) * p[0] ** c / factorial(c) * factorial(n)
    return answer


# variant: recursion over the wrong answers, with a cache
import math
from functools import cache


def expected_vote(probabilities, n):
    assert n >= 1, f"n = {n}"
    assert len(probabilities) > 0 and min(probabilities) >= 0, f"probabilities = {probabilities}"
    nothing = 1 - sum(probabilities)
    assert nothing > -1e-8, f"the probabilities {probabilities} add up to more than 1"
    nothing = max(nothing, 0)

    @cache
    def share(i, left, c, ties):
        if i == len(probabilities):
            return nothing**left / (1 + ties)
        total = 0.0
        for k in range(min(c, left) + 1):
            total += math.comb(left, k) * probabilities[i] ** k * share(i + 1, left - k, c, ties + (k == c))
        return total

    return sum(math.comb(n, c) * probabilities[0] ** c * share(1, n - c, c, 0) for c in range(1, n + 1))


# variant: tensors over draws and ties, with logarithms of factorials
import math

import torch


def expected_vote(probabilities, n):
    if n <= 0:
        raise ValueError(f"n = {n}")
    if len(probabilities) < 1 or sum(probabilities) - 1 > 1e-9 or any(p < 0 for p in probabilities):
        raise ValueError(f"these are no probabilities: {probabilities}")
    shares = torch.tensor([max(1 - sum(probabilities), 0), *probabilities[1:]], dtype=torch.float64)
    counts = torch.arange(n + 1, dtype=torch.float64)
    chances = shares[:, None] ** counts * torch.exp(-torch.lgamma(counts + 1))  # p ** k / k!
    total = 0.0
    for c in range(1, n + 1):
        table = torch.zeros(n - c + 1, len(shares), dtype=torch.float64)  # draws, ties
        table[:, 0] = chances[0, : n - c + 1]
        for row in chances[1:]:
            new = torch.zeros_like(table)
            for k in range(min(c - 1, n - c) + 1):
                new[k:] += row[k] * table[: len(table) - k]
            if c <= n - c:
                new[c:, 1:] += row[c] * table[:-c, :-1]
            table = new
        right = math.exp(math.lgamma(n + 1) - math.lgamma(c + 1)) * probabilities[0] ** c
        total += right * float((table[n - c] / torch.arange(1, len(shares) + 1)).sum())
    return total
