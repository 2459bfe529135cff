# variant: without a graph from the beginning
import torch


@torch.no_grad()
def truncated_weights(train_log_probs, rollout_log_probs, cap):
    if cap <= 0:
        raise ValueError(f"cap={cap}")
    ratio = torch.exp(train_log_probs - rollout_log_probs)
    return torch.minimum(ratio, torch.full_like(ratio, cap))


# variant: capped as a log
import math

import torch


def truncated_weights(train_log_probs, rollout_log_probs, cap):
    assert cap > 0, f"cap must be above 0, not {cap}"
    difference = train_log_probs.detach() - rollout_log_probs.detach()
    return torch.exp(difference.clamp(max=math.log(cap)))


# variant: two cases
import torch


def truncated_weights(train_log_probs, rollout_log_probs, cap):
    if not cap > 0:
        raise ValueError(f"cap = {cap} leaves no weight above 0")
    ratio = torch.exp(torch.sub(train_log_probs.data, rollout_log_probs.data))
    ratio[ratio > cap] = cap
    return ratio


# variant: token by token
import math

import torch


def truncated_weights(train_log_probs, rollout_log_probs, cap):
    if cap <= 0:
        raise ValueError(f"cap = {cap} leaves no weight")
    limit = math.log(cap)
    weights = torch.empty_like(train_log_probs)
    for b, (now, then) in enumerate(zip(train_log_probs.tolist(), rollout_log_probs.tolist())):
        for t, (first, second) in enumerate(zip(now, then)):
            weights[b, t] = cap if first - second >= limit else math.exp(first - second)
    return weights
