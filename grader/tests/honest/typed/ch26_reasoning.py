"""In the typed style: named steps, a dataclass where values belong together, every type written down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

AVERAGES: Final[tuple[str, ...]] = ("token", "sequence", "fixed")


@dataclass(frozen=True)
class Bounds:
    low: float
    high: float

    def objective(self, ratio: Tensor, advantage: Tensor) -> Tensor:
        """The ratio stops at one bound only: at the upper one for good answers, at the lower one for bad ones."""
        stopped: Tensor = torch.where(advantage > 0, ratio.clamp(max=1 + self.high), ratio.clamp(min=1 - self.low))
        return stopped * advantage


def _grouped(rewards: Tensor, group_size: int, smallest: int) -> Tensor:
    if group_size < smallest:
        raise ValueError(f"group_size must be at least {smallest}, got {group_size}")
    count, rest = divmod(rewards.shape[0], group_size)
    if rest:
        raise ValueError(f"{rewards.shape[0]} rewards are not a multiple of group_size = {group_size}")
    return rewards.reshape(count, group_size)


def leave_one_out_advantages(rewards: Tensor, group_size: int) -> Tensor:
    groups: Tensor = _grouped(rewards, group_size, smallest=2)
    own: Tensor = torch.eye(group_size, dtype=rewards.dtype, device=rewards.device)
    of_the_others: Tensor = groups @ (1 - own) / (group_size - 1)
    return torch.flatten(groups - of_the_others)


def informative_groups(rewards: Tensor, group_size: int) -> Tensor:
    groups: Tensor = _grouped(rewards, group_size, smallest=1)
    smallest, largest = torch.aminmax(groups, dim=1)
    return torch.repeat_interleave(torch.ne(smallest, largest), group_size)


def long_answer_penalty(lengths: Tensor, soft: int, hard: int) -> Tensor:
    if not soft < hard:
        raise ValueError(f"expected soft < hard, got soft = {soft} and hard = {hard}")
    beyond: Tensor = (lengths.to(torch.float32) - soft).clamp(min=0, max=hard - soft)
    return torch.neg(beyond / (hard - soft))


def _change(now: Tensor, before: Tensor, mask: Tensor) -> Tensor:
    """The differences of the log probabilities, and 0 where the mask is False; `before` is fixed."""
    return torch.where(mask, now - before.detach(), torch.zeros_like(now))


def kl_loss(log_probs: Tensor, reference_log_probs: Tensor, mask: Tensor) -> Tensor:
    half_square: Tensor = 0.5 * torch.square(_change(log_probs, reference_log_probs, mask))
    return torch.sum(half_square) / max(1, int(mask.sum()))


def asymmetric_policy_loss(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    low: float = 0.2,
    high: float = 0.28,
    average: str = "token",
    length: float | None = None,
) -> Tensor:
    if average not in AVERAGES:
        raise ValueError(f"average must be one of {AVERAGES}, got {average!r}")
    weights: Tensor = mask.to(log_probs.dtype)
    if average == "fixed":
        if length is None or length <= 0:
            raise ValueError(f"the fixed average needs a length above 0, got {length}")
        weights = weights / (mask.shape[0] * length)
    elif average == "sequence":
        tokens: Tensor = weights.sum(dim=1, keepdim=True)
        weights = weights / tokens.clamp(min=1) / torch.count_nonzero(tokens).clamp(min=1)
    else:
        weights = weights / weights.sum().clamp(min=1)
    ratio: Tensor = torch.exp(_change(log_probs, old_log_probs, mask))
    advantage: Tensor = advantages.detach().unsqueeze(-1).expand_as(ratio)
    return -torch.sum(weights * Bounds(low, high).objective(ratio, advantage))


def sequence_policy_loss(
    log_probs: Tensor, old_log_probs: Tensor, advantages: Tensor, mask: Tensor, low: float = 0.2, high: float = 0.28
) -> Tensor:
    tokens: Tensor = mask.sum(dim=1)
    change: Tensor = _change(log_probs, old_log_probs, mask)
    ratio: Tensor = torch.exp(change.sum(dim=1) / tokens.clamp(min=1))
    objective: Tensor = Bounds(low, high).objective(ratio, advantages.detach())
    counts: Tensor = (tokens > 0).to(objective.dtype)
    return -torch.dot(objective, counts) / counts.sum().clamp(min=1)


def truncated_weights(train_log_probs: Tensor, rollout_log_probs: Tensor, cap: float) -> Tensor:
    if cap <= 0:
        raise ValueError(f"cap must be positive, got {cap}")
    with torch.no_grad():
        ratio: Tensor = torch.exp(train_log_probs - rollout_log_probs)
        return torch.clamp(ratio, max=cap)
