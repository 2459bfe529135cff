# variant: resample by resample, with lists, torch.rand for the places and a quantile by hand
import math
from collections import defaultdict

import torch


def bootstrap_interval(values, level=0.95, resamples=2000, generator=None, clusters=None):
    assert len(values) > 0, "no values"
    assert 0 < level < 1, f"level {level}"
    assert resamples >= 1, f"resamples {resamples}"
    groups = defaultdict(list)
    if clusters is None:
        for i, value in enumerate(values):
            groups[i].append(value)
    else:
        assert len(clusters) == len(values), f"{len(clusters)} clusters, {len(values)} values"
        for name, value in zip(clusters, values):
            groups[name].append(value)
    groups = list(groups.values())
    means = []
    for _ in range(resamples):
        total = number = 0
        for u in torch.rand(len(groups), generator=generator, dtype=torch.float64).tolist():
            group = groups[int(u * len(groups))]
            total += sum(group)
            number += len(group)
        means.append(total / number)
    means.sort()

    def quantile(q):
        place = q * (resamples - 1)
        below = math.floor(place)
        above = min(below + 1, resamples - 1)
        return means[below] + (place - below) * (means[above] - means[below])

    return quantile((1 - level) / 2), quantile((1 + level) / 2)


# variant: how often each cluster is drawn, as a matrix of counts
def bootstrap_interval(values, level=0.95, resamples=2000, generator=None, clusters=None):
    n = len(values)
    if n < 1:
        raise ValueError("values must not be empty")
    if level <= 0 or level >= 1:
        raise ValueError(f"level must be inside (0, 1), not level = {level}")
    if resamples < 1:
        raise ValueError(f"resamples must be positive, not resamples = {resamples}")
    if clusters is not None and len(clusters) != n:
        raise ValueError(f"clusters: {len(clusters)}, values: {n}")
    x = torch.tensor(values, dtype=torch.float64)
    names = list(range(n)) if clusters is None else list(clusters)
    numbers = {name: i for i, name in enumerate(dict.fromkeys(names))}
    member = torch.zeros(len(numbers), n, dtype=torch.float64)
    for i, name in enumerate(names):
        member[numbers[name], i] = 1
    k = len(numbers)
    places = torch.randint(0, k, (resamples, k), generator=generator)
    times = torch.zeros(resamples, k, dtype=torch.float64).scatter_add_(1, places, torch.ones_like(places, dtype=torch.float64))
    weight = times @ member
    means = (weight @ x) / weight.sum(1)
    return torch.quantile(means, (1 - level) / 2).item(), torch.quantile(means, 1 - (1 - level) / 2).item()


# variant: torch.multinomial, and a random generator of Python with a seed from the generator
import random


def bootstrap_interval(values, level=0.95, resamples=2000, generator=None, clusters=None):
    if not len(values):
        raise ValueError("values is empty")
    if not (0.0 < level < 1.0):
        raise ValueError(f"level = {level}")
    if resamples <= 0:
        raise ValueError(f"resamples = {resamples}")
    names = list(range(len(values)) if clusters is None else clusters)
    if len(names) != len(values):
        raise ValueError(f"clusters has length {len(names)}, values {len(values)}")
    groups = {}
    for name, value in zip(names, values):
        total, number = groups.get(name, (0.0, 0))
        groups[name] = (total + value, number + 1)
    groups = list(groups.values())
    dice = random.Random(int(torch.randint(2**62, (1,), generator=generator)))
    means = []
    for _ in range(resamples):
        chosen = dice.choices(groups, k=len(groups))
        means.append(sum(total for total, _ in chosen) / sum(number for _, number in chosen))
    q = torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=torch.float64)
    ends = torch.tensor(means, dtype=torch.float64).quantile(q)
    return ends[0].item(), ends[1].item()
