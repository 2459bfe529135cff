"""The pictures of the lesson that show numbers of the reference."""

from __future__ import annotations

import math
from types import ModuleType

import torch
from grader.teaching.drawing import curves
from torch import Tensor

VOTES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 17, 21, 25, 33, 49, 65, 99)
MODELS = {
    "0.4, ten wrong with 0.06": (0.4, *[0.06] * 10),
    "0.4, wrong 0.3 and 0.3": (0.4, 0.3, 0.3),
    "0.4, one wrong with 0.6": (0.4, 0.6),
}


def ch26_reasoning(chapter: ModuleType) -> str:
    """Draw how often a vote is right, over the number of votes, for three models that are right 40 % of the time."""
    lines = {name: [(n, chapter.expected_vote(model, n)) for n in VOTES] for name, model in MODELS.items()}
    title = "A vote of n answers, of models that are right 40 % of the time"
    return curves(lines, title, x_name="number of votes", y_name="probability of being right", log_x=True)


def ch26_directions(chapter: ModuleType) -> str:
    """Draw how hard k3 and kl_loss pull a policy of two tokens back to the reference 0.5, over the first token."""
    policies = [i / 100 for i in range(50, 100)] + [0.995, 0.999]
    lines: dict[str, list[tuple[float, float]]] = {"k3": [], "kl_loss": []}
    for p in policies:
        for name in lines:
            pull = 0.0
            for token, chance in enumerate((p, 1 - p)):
                logits = torch.tensor([math.log(p), math.log(1 - p)], dtype=torch.float64, requires_grad=True)
                with torch.enable_grad():
                    log_prob = logits.log_softmax(0)[token].view(1, 1)
                    loss = _loss_of(chapter, name, log_prob, torch.full_like(log_prob, math.log(0.5)))
                    pull += chance * float(torch.autograd.grad(loss, logits)[0][0])
            lines[name].append((p, pull))
    title = "How hard a KL term pulls, for a reference of 0.5 and 0.5"
    looks = [(1, 1), (0, 0)]
    return curves(lines, title, x_name="the policy's first token", y_name="expected gradient", looks=looks)


def _loss_of(chapter: ModuleType, name: str, log_prob: Tensor, reference: Tensor) -> Tensor:
    if name == "k3":
        d = log_prob - reference
        return (torch.expm1(-d) + d).sum()
    return chapter.kl_loss(log_prob, reference, torch.ones(1, 1, dtype=torch.bool))
