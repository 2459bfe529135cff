"""Reasoning: advantages, penalties, policy losses, distillation and votes."""

from __future__ import annotations

import math
from typing import Any

import torch
from grader.chapters.ch26_reasoning.pictures import MODELS
from grader.execution.proxy import Implementation
from grader.teaching.show.panel_makers import expect_pair, make_bars, make_chart
from grader.teaching.show.panels import Panel
from grader.verdict.comparing import shaped
from torch import Tensor

LENGTHS = list(range(0, 31))
SHARES = [i / 100 for i in range(2, 99, 2)]  # of the first token
RATIOS = torch.arange(51, 181, 2) / 100  # none is at an end of the clipped range, where two slopes are right
VOTES = (1, 2, 3, 5, 7, 9, 13, 17, 25, 33)
TEACHER = (0.45, 0.45, 0.1)


def leave_one_out_advantages(side: Implementation) -> list[Panel]:
    rewards = torch.tensor([1.0, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0])
    advantages = shaped(side.leave_one_out_advantages(rewards, 4), (12,), "the tensor of advantages").view(3, 4)
    panels: list[Panel] = []
    for group, values in zip(rewards.view(3, 4), advantages):
        right = int(group.sum())
        panels.append(make_bars(f"{right} of 4 right", [f"reward {value:g}" for value in group], values, "advantage"))
    return panels


def long_answer_penalty(side: Implementation) -> list[Panel]:
    lines = {"soft 10, hard 20": side.long_answer_penalty(torch.tensor(LENGTHS), 10, 20)}
    return [make_chart("what is added to the reward", LENGTHS, lines, "tokens of the answer", "penalty")]


def kl_loss(side: Implementation) -> list[Panel]:
    pulls = side.bring(expected_pull)(side.kl_loss, SHARES)
    title, x_name = "the expected gradient with respect to the first logit", "the policy's first token"
    return [make_chart(title, SHARES, {"kl_loss": pulls}, x_name, "gradient")]


def expected_pull(loss: Any, shares: list[float]) -> Tensor:
    """Average the gradient over both tokens, each as often as the policy draws it; this source is sent to the
    implementation's side."""
    pulls = []
    for p in shares:
        pull = torch.zeros(2)
        for token, chance in enumerate((p, 1 - p)):
            logits = torch.tensor([p, 1 - p]).log().requires_grad_()
            drawn = logits.log_softmax(0)[token].view(1, 1)
            loss(drawn, torch.full((1, 1), 0.5).log(), torch.ones(1, 1, dtype=torch.bool)).backward()
            pull += chance * logits.grad
        pulls.append(pull[0])
    return torch.stack(pulls)


def asymmetric_policy_loss(side: Implementation) -> list[Panel]:
    """One token, at many ratios: minus the loss, and minus its gradient, for an advantage of 1 and of -1."""
    objectives, slopes = {}, {}
    for name, advantage in (("advantage 1", 1.0), ("advantage -1", -1.0)):
        helper = side.bring(objective_and_slope)
        found = expect_pair(helper(side.asymmetric_policy_loss, RATIOS, advantage), "two tensors")
        objectives[name], slopes[name] = found
    x = RATIOS.tolist()
    return [
        make_chart("the objective of one token, low 0.2 and high 0.28", x, objectives, "ratio", "objective"),
        make_chart("how it grows with log p", x, slopes, "ratio", "slope"),
    ]


def objective_and_slope(loss: Any, ratios: Tensor, advantage: float) -> tuple[Tensor, Tensor]:
    """For each ratio; this source is sent to the implementation's side."""
    objectives, slopes = [], []
    for ratio in ratios:
        log_prob, mask = ratio.log().view(1, 1).requires_grad_(), torch.ones(1, 1, dtype=torch.bool)
        objective = -loss(log_prob, torch.zeros(1, 1), torch.tensor([advantage]), mask, 0.2, 0.28)
        objective.backward()
        objectives.append(objective.detach())
        slopes.append(log_prob.grad[0, 0])
    return torch.stack(objectives), torch.stack(slopes)


def entropy(side: Implementation) -> list[Panel]:
    mask = torch.ones(1, 1, dtype=torch.bool)
    values = [side.entropy(torch.tensor([[[math.log(p), math.log(1 - p)]]]), mask) for p in SHARES]
    return [make_chart("the entropy of two tokens", SHARES, {"": values}, "probability of the first", "nats")]


def distillation_loss(side: Implementation) -> list[Panel]:
    """The teacher's choices have 0.45 each. The student gives 0.1 to the third token and divides the rest."""
    teacher, mask = torch.tensor([[TEACHER]]).log(), torch.ones(1, 1, dtype=torch.bool)
    lines: dict[str, list[Any]] = {kind: [] for kind in ("forward", "reverse", "jsd")}
    widths = [i / 40 for i in range(1, 40)]  # the student's share of the first choice, of what is left
    for share in widths:
        student = torch.tensor([[[0.9 * share, 0.9 * (1 - share), 0.1]]]).log()
        for kind, values in lines.items():
            values.append(side.distillation_loss(student, teacher, mask, kind))
    x_name = "share of the first choice"
    return [make_chart("the distance of a student from its teacher", widths, lines, x_name, "loss")]


def expected_vote(side: Implementation) -> list[Panel]:
    lines = {name: [side.expected_vote(list(model), n) for n in VOTES] for name, model in MODELS.items()}
    return [make_chart("how often a vote is right", VOTES, lines, "number of votes", "probability")]
