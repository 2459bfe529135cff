# variant: every way by itself, with itertools.product
import itertools
import math

import torch


def paired_test(a, b, generator=None):
    if len(a) == 0 or len(a) != len(b):
        raise ValueError(f"a ({len(a)}) and b ({len(b)}) need the same number of values, at least one")
    d = [float(x) - float(y) for x, y in zip(a, b)]
    d = [x for x in d if x != 0.0]
    if not d:
        return 1.0
    scale = max(abs(x) for x in d)
    seen = abs(math.fsum(d)) - scale * 1e-10
    if len(d) <= 20:
        # the first sign can stay as it is: turning all signs round gives a sum that is as far
        first, rest = d[0], d[1:]
        pairs = [(x, -x) for x in rest]
        far = sum(abs(first + sum(way)) >= seen for way in itertools.product(*pairs))
        return far / 2 ** len(rest)
    values = torch.tensor(d, dtype=torch.float64)
    far = 0
    for _ in range(10):
        flips = torch.rand(1000, len(d), generator=generator) < 0.5
        sums = torch.where(flips, -values, values).sum(dim=1)
        far += int((sums.abs() >= seen).sum())
    return (far + 1) / 10001


# variant: the bits of all numbers below 2 ** m are the signs
def paired_test(a, b, generator=None):
    assert len(a) == len(b) >= 1, f"a and b have {len(a)} and {len(b)} values"
    d = torch.tensor([x for x in a], dtype=torch.float64) - torch.tensor([y for y in b], dtype=torch.float64)
    d = d[d.abs() > 0]
    m = d.numel()
    total = d.sum()
    if m > 20:
        bits = torch.bernoulli(torch.full((10000, m), 0.5, dtype=torch.float64), generator=generator)
    else:
        bits = (torch.arange(2**m)[:, None] >> torch.arange(m)) % 2
    # a way whose bits are 1 turns these signs round, and so subtracts them twice
    sums = total - 2 * bits.double() @ d
    close = 1e-9 * d.abs().sum()
    far = int(torch.count_nonzero(sums.abs() > total.abs() - close)) if m else 1
    return far / 2**m if m <= 20 else (1 + far) / (1 + len(bits))


# variant: a dict from rounded sums to the number of ways
from collections import Counter


def paired_test(a, b, generator=None):
    if len(a) != len(b):
        raise ValueError(f"len(a) = {len(a)}, len(b) = {len(b)}")
    if len(a) < 1:
        raise ValueError("a and b are empty")
    differences = [x - y for x, y in zip(a, b) if x != y]
    if len(differences) > 20:
        signs = torch.randint(0, 2, (10_000, len(differences)), generator=generator).mul(2).sub(1).to(torch.float64)
        sums = (signs * torch.tensor(differences, dtype=torch.float64)).sum(1).abs().tolist()
        seen = abs(sum(differences))
        return (1 + sum(each > seen or math.isclose(each, seen, rel_tol=1e-9, abs_tol=1e-12) for each in sums)) / 10_001
    ways = Counter({0.0: 1})
    for x in differences:
        longer = Counter()
        for total, number in ways.items():
            longer[round(total + x, 10)] += number
            longer[round(total - x, 10)] += number
        ways = longer
    seen = abs(sum(differences))
    return sum(number for total, number in ways.items() if abs(total) >= seen - 1e-8) / 2 ** len(differences)
