"""Fine-tuning: adapters, targets, packed rows, and the losses of preferences and rewards."""

from __future__ import annotations

from typing import Any

import torch
from grader.execution.proxy import Implementation
from grader.teaching.show.panel_makers import expect_pair, make_bars, make_chart, make_grid, random_tensor
from grader.teaching.show.panels import Panel
from grader.verdict.comparing import Mismatch, shaped
from torch import Tensor, nn

CHAT = ("user", "how", "many", "end", "model", "four", "end", "user", "why", "end", "model", "two", "pairs", "end")
ANSWERS = [(5, 7), (11, 14)]
LENGTHS, ROW = (3, 4, 10, 2, 1), 8  # of the texts, and of a row
DIFFERENCES = [i / 10 for i in range(-50, 51)]
RATIOS = torch.arange(51, 151, 2) / 100  # none is at an end of the clipped range, where two slopes are right


def lora_linear(side: Implementation) -> list[Panel]:
    panels: list[Panel] = []
    weight, x = random_tensor(1, 5, 8), random_tensor(2, 8)
    for rank in (1, 2):
        a, b = random_tensor(3, rank, 8), random_tensor(4, 5, rank)
        moved, merged = expect_pair(side.bring(adapted)(side.LoRALinear, weight, a, b, x), "two tensors")
        if rank == 1:
            panels.append(make_bars("how far a new adapter moves the output", 5, moved, "change"))
        change = shaped(merged, (5, 8), "the merged weight") - weight
        panels.append(make_grid(f"what rank {rank} adds to the weight", change, 5, 8, ("output", "input")))
    return panels


def adapted(lora: Any, weight: Tensor, a: Tensor, b: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """How far a new adapter moves the output, and the merged weight of one with these parameters; this source is sent
    to the implementation's side."""
    linear = nn.Linear(weight.size(1), weight.size(0))
    with torch.no_grad():
        linear.weight.copy_(weight)
        before = linear(x)
        layer = lora(linear, len(a), 2.0 * len(a))
        moved = layer(x) - before
        layer.A.copy_(a)
        layer.B.copy_(b)
        return moved, layer.merged().weight.detach()


def answer_labels(side: Implementation) -> list[Panel]:
    """The words are numbered; a row shows which word the model is trained to write behind this one."""
    targets = side.answer_labels(list(range(len(CHAT))), ANSWERS)
    if not isinstance(targets, list) or len(targets) != len(CHAT) - 1:
        raise Mismatch(f"answer_labels should return a list of {len(CHAT) - 1} targets", targets)
    table = torch.zeros(len(CHAT) - 1, len(CHAT))
    for row, target in enumerate(targets):
        if 0 <= target < len(CHAT):
            table[row, target] = 1.0
    words = ("not trained", "the target")
    return [make_grid("the target behind each word", table, CHAT[:-1], CHAT, ("input", "target"), words=words)]


def pack(side: Implementation) -> list[Panel]:
    """All tokens of a text have its number, from 1 on; 0 is padding."""
    packed = side.pack([[number] * length for number, length in enumerate(LENGTHS, start=1)], ROW, 0)
    if not isinstance(packed, tuple | list) or len(packed) != 4:
        raise Mismatch("pack should return (ids, targets, positions, mask)", packed)
    ids, targets, positions, mask = packed
    rows = [f"row {i}" for i in range(3)]
    ids = shaped(ids, (3, ROW), "the tensor of ids")
    mask = shaped(mask, (3, ROW, ROW), "the mask")
    trained = (shaped(targets, (3, ROW), "the tensor of targets") != -100).double()
    return [
        make_grid("the text of each place", ids, rows, ROW, ("", "place")),
        make_grid("the positions", positions, rows, ROW, ("", "place")),
        make_grid("which places have a target", trained, rows, ROW, ("", "place"), words=("no target", "a target")),
        make_grid("the mask of row 0", mask[0], ROW, ROW, ("query", "key"), words=("hidden", "may attend")),
    ]


def reward_loss(side: Implementation) -> list[Panel]:
    lines = {
        f"margin {margin:g}": [side.reward_loss(torch.tensor([d]), torch.zeros(1), margin) for d in DIFFERENCES]
        for margin in (0.0, 1.0)
    }
    x_name = "reward of the chosen answer - reward of the rejected one"
    return [make_chart("the loss of one pair", DIFFERENCES, lines, x_name, "loss")]


def dpo_loss(side: Implementation) -> list[Panel]:
    """The reference gives -20 to both answers; the policy raises the chosen one and leaves the other."""
    reference, lines = torch.tensor([-20.0]), {}
    for beta in (0.1, 0.5, 1.0):
        losses = [side.dpo_loss(reference + d, reference, reference, reference, beta)[0] for d in DIFFERENCES]
        lines[f"beta {beta:g}"] = losses
    policies = torch.tensor([-14.0, -18.0, -20.0, -26.0])
    _, chosen, rejected = side.dpo_loss(policies, policies.flip(0), reference.expand(4), reference.expand(4), 0.5)
    labels = [f"log p {value:g}" for value in policies.tolist()]
    x_name = "log p of the chosen answer, policy - reference"
    return [
        make_chart("the loss of one pair", DIFFERENCES, lines, x_name, "loss"),
        make_bars("the rewards of four chosen answers, beta 0.5", labels, chosen, "reward"),
        make_bars("the rewards of the rejected ones", labels[::-1], rejected, "reward"),
    ]


def kl_estimate(side: Implementation) -> list[Panel]:
    d = torch.tensor(DIFFERENCES[20:-20])
    lines = {kind: side.kl_estimate(d, torch.zeros_like(d), kind) for kind in ("k1", "k2", "k3")}
    x_name = "log p of the policy - that of the reference"
    return [make_chart("the estimate from one token", d.tolist(), lines, x_name, "KL")]


def policy_loss(side: Implementation) -> list[Panel]:
    """One token, at many ratios: minus the loss, and minus its gradient, for an advantage of 1 and of -1."""
    objectives, slopes = {}, {}
    for name, advantage in (("advantage 1", 1.0), ("advantage -1", -1.0)):
        found = expect_pair(side.bring(objective_and_slope)(side.policy_loss, RATIOS, advantage), "two tensors")
        objectives[name], slopes[name] = found
    x = RATIOS.tolist()
    return [
        make_chart("the objective of one token, clip 0.2", x, objectives, "ratio", "objective"),
        make_chart("how it grows with log p", x, slopes, "ratio", "slope"),
    ]


def objective_and_slope(loss: Any, ratios: Tensor, advantage: float) -> tuple[Tensor, Tensor]:
    """For each ratio; this source is sent to the implementation's side."""
    objectives, slopes = [], []
    for ratio in ratios:
        log_prob = ratio.log().view(1, 1).requires_grad_()
        objective = -loss(log_prob, torch.zeros(1, 1), torch.tensor([advantage]), torch.ones(1, 1, dtype=torch.bool))
        objective.backward()
        objectives.append(objective.detach())
        slopes.append(log_prob.grad[0, 0])
    return torch.stack(objectives), torch.stack(slopes)
