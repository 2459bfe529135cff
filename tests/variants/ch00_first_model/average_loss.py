# variant: a loop with math.log
import math


def average_loss(probabilities, ids):
    ids = [int(i) for i in ids]
    if len(ids) <= 1:
        raise ValueError("too short")
    total = 0.0
    for a, b in zip(ids, ids[1:]):
        p = float(probabilities[a][b])
        if p == 0:
            return math.inf
        total -= math.log(p)
    return total / (len(ids) - 1)


# variant: the logarithm of the whole table first
import torch


def average_loss(probabilities, ids):
    ids = torch.tensor(list(ids), dtype=torch.long)
    if ids.numel() < 2:
        raise ValueError(f"{ids.numel()} ids make no step")
    logs = torch.log(probabilities.double())
    return -logs[ids[:-1]].gather(1, ids[1:, None]).mean().item()


# variant: nll_loss of the rows
import torch


def average_loss(probabilities, ids):
    ids = torch.as_tensor(ids)
    if ids.shape[0] < 2:
        raise ValueError("a loss needs two ids or more")
    return torch.nn.functional.nll_loss(probabilities.log()[ids[:-1]], ids[1:]).item()


# variant: a list of probabilities
import torch


def average_loss(probabilities, ids):
    ids = list(map(int, ids))
    steps = [probabilities[a, b] for a, b in zip(ids[:-1], ids[1:])]
    if not steps:
        raise ValueError("no step")
    return sum(-torch.log(step).item() for step in steps) / len(steps)
