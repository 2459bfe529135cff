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


# variant: counts of the steps times the losses of the steps, with xlogy
def average_loss(probabilities, ids):
    text = torch.as_tensor(ids, dtype=torch.int64)
    if len(text) < 2:
        raise ValueError(f"a text of {len(text)} ids is too short")
    counts = torch.zeros_like(probabilities)
    counts.index_put_((text[:-1], text[1:]), torch.ones((), dtype=counts.dtype), accumulate=True)
    return float(-torch.xlogy(counts, probabilities).sum() / counts.sum())


# variant: one-hot rows pick the probabilities by einsum
def average_loss(probabilities, ids):
    text = torch.as_tensor(ids, dtype=torch.int64)
    assert len(text) >= 2, f"at least 2 ids are needed, there are {len(text)}"
    one_hot = torch.nn.functional.one_hot(text, probabilities.shape[-1]).to(probabilities.dtype)
    steps = torch.einsum("ta,ab,tb->t", one_hot[:-1], probabilities, one_hot[1:])
    return -steps.log().mean().item()


# variant: the logarithm of the geometric mean, in float64
def average_loss(probabilities, ids):
    text = torch.as_tensor(ids, dtype=torch.int64)
    steps = len(text) - 1
    if steps < 1:
        raise ValueError(f"{len(text)} ids are fewer than two")
    p = probabilities.double()[text[:-1], text[1:]]
    return -float((p ** (1 / steps)).prod().log())


# variant: a running mean of one step at a time
def average_loss(probabilities, ids):
    if len(ids) < 2:
        raise ValueError(f"len(ids) = {len(ids)}, but one step takes two ids")
    mean = 0.0
    before = int(ids[0])
    for step, now in enumerate(map(int, ids[1:]), start=1):
        loss = -float(probabilities[before, now].double().log())
        mean = mean * ((step - 1) / step) + loss / step
        before = now
    return mean


# variant: numpy, without its warning about log 0
def average_loss(probabilities, ids):
    import numpy as np

    text = np.asarray([int(i) for i in ids], dtype=np.int64)
    if text.size < 2:
        raise ValueError(f"size {text.size} is below 2")
    p = probabilities.detach().cpu().numpy().astype(np.float64)
    with np.errstate(divide="ignore"):
        return float(-np.log(p[text[:-1], text[1:]]).mean())
