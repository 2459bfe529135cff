"""Training: the loss as a curve, the learning rate by step, the path of an optimizer."""

from __future__ import annotations

import math

import torch
from grader.execution.proxy import Implementation
from grader.teaching.show.panel_makers import make_bars, make_chart, random_tensor
from grader.teaching.show.panels import Chart, Panel


def cross_entropy(side: Implementation) -> list[Panel]:
    """One prediction between two words, by the probability of the right one; then a batch of six targets, some of which do not count."""
    chances = [0.01, 0.02, *(i / 20 for i in range(1, 20)), 0.98, 0.99]
    losses = [float(side.cross_entropy(torch.tensor([[math.log(p), math.log(1 - p)]]), torch.tensor([0]))) for p in chances]
    logits, targets = 1.5 * random_tensor(2, 2, 3, 5), torch.tensor([[0, 4, 2], [1, 1, 3]])
    some = torch.tensor([[0, 4, -100], [1, -100, -100]])
    batch = [float(side.cross_entropy(logits, ids)) for ids in (targets, some, torch.full_like(targets, -100))]
    return [
        make_chart("the loss of one prediction", chances, {"loss": losses}, "probability of the right word", "loss"),
        make_bars("the loss of a batch of six", ["all count", "three count", "none counts"], batch, "loss"),
    ]


def warmup_cosine(side: Implementation) -> list[Panel]:
    steps = list(range(0, 111))
    lines = {f"floor {floor:g}": [side.warmup_cosine(step, 10, 100, 1.0, floor) for step in steps] for floor in (0.0, 0.2)}
    return [make_chart("warmup_cosine(step, 10, 100, 1)", steps, lines, "step", "learning rate")]


def adamw(side: Implementation) -> list[Panel]:
    """Down a valley that is steep across and flat along, from (-4, 2); once with strong decay."""
    walk = side.bring(way)
    lines = {name: [(float(x), float(y)) for x, y in walk(side.AdamW, decay, 40)] for name, decay in (("no decay", 0.0), ("decay 0.5", 0.5))}
    return [Chart("40 steps down a valley, lr=0.2", lines, "along", "across", square=True)]


def way(optimizer, decay, steps):
    place = torch.nn.Parameter(torch.tensor([-4.0, 2.0]))
    taken = optimizer([place], lr=0.2, weight_decay=decay)
    points = [place.tolist()]
    for _ in range(steps):
        taken.zero_grad()
        (0.5 * place[0] ** 2 + 5 * place[1] ** 2).backward()
        taken.step()
        points.append(place.tolist())
    return points
