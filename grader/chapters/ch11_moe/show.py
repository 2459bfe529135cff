"""The experts of each token."""

from __future__ import annotations

import torch
from grader.execution.proxy import Implementation, load
from grader.teaching.show.panel_makers import (
    WORDS,
    expect_pair,
    fix_weights,
    make_bars,
    make_chart,
    make_grid,
    random_tensor,
)
from grader.teaching.show.panels import Panel
from grader.verdict.comparing import Mismatch, shaped
from torch import Tensor

EXPERTS, D = 5, 8


def route(side: Implementation) -> list[Panel]:
    logits, axes = 1.5 * random_tensor(3, 7, EXPERTS), ("", "expert")
    panels: list[Panel] = [make_grid("the router's logits", logits, WORDS, EXPERTS, axes, given=True)]
    for k in (1, 2):
        weights, experts = side.route(logits, k)
        shaped(weights, (7, k), "the first result")
        shaped(experts, (7, k), "the second result")
        if not (0 <= int(experts.min()) and int(experts.max()) < EXPERTS):
            wanted = f"there are {EXPERTS} experts, from 0 to {EXPERTS - 1}"
            raise Mismatch(f"the second result has numbers that are not experts: {wanted}")
        table = torch.zeros(7, EXPERTS).scatter(1, experts.long(), weights.detach().float())
        panels.append(make_grid(f"the weights, top_k = {k}", table, WORDS, EXPERTS, axes))
    return panels


def load_balancing_loss(side: Implementation) -> list[Panel]:
    noise, pulls = random_tensor(5, 64, EXPERTS), [i / 4 for i in range(25)]
    batches = [torch.softmax(noise + pull * torch.eye(EXPERTS)[0], dim=-1) for pull in pulls]
    lines = {}
    for k in (1, 2):
        losses = [side.load_balancing_loss(probs, probs.topk(k, dim=-1).indices) for probs in batches]
        lines[f"top {k}"] = [float(loss) for loss in losses]
    return [make_chart("the balance loss", pulls, lines, "pull towards expert 0", "loss")]


def moe_layer(side: Implementation) -> list[Panel]:
    """Raise one expert's output at a time by 1: a token's output rises by the weight that it gives that expert."""
    layer = fix_weights(side.MoELayer(D, 16, n_experts=EXPERTS, top_k=2), 4, scale=1.5)
    x = random_tensor(6, 1, 7, D)

    def output() -> Tensor:
        found, _ = expect_pair(layer(x), "MoELayer should return (output, aux_loss)")
        return shaped(found, (1, 7, D), "the output").detach()[0]

    before = output()
    arrived = []
    for expert in range(EXPERTS):
        load(layer, {f"experts.{expert}.down.bias": torch.ones(D)})
        arrived.append((output() - before).mean(dim=-1))
        load(layer, {f"experts.{expert}.down.bias": torch.zeros(D)})
    weights = torch.stack(arrived, dim=1)
    loads = (weights.abs() > 1e-4).sum(dim=0)
    names = [f"expert {i}" for i in range(EXPERTS)]
    return [
        make_grid("the weight of each expert", weights, WORDS, EXPERTS, ("", "expert")),
        make_bars("words that each expert processes", names, loads, "words"),
    ]
