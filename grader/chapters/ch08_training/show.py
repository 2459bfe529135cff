"""Training: batches, losses, rates, an optimizer's path."""

from __future__ import annotations

import math

import torch
from grader.execution.proxy import Implementation
from grader.teaching.show.panel_makers import make_bars, make_chart, make_grid, random_tensor
from grader.teaching.show.panels import Chart, Panel


def collate(side: Implementation) -> list[Panel]:
    inputs, targets = side.collate([([4, 2, 7, 5], [2, 7, 5, 9]), ([6, 3], [3, 8]), ([1, 5, 2], [5, 2, 6])])
    if isinstance(targets, torch.Tensor):
        targets = targets.to(torch.float64).where(targets != -100, -2)
    rows, axes = [f"sentence {i}" for i in range(3)], ("", "position")
    return [
        make_grid("inputs, padded with 0", inputs, rows, 4, axes, "the first result"),
        make_grid("targets, with -2 shown for -100", targets, rows, 4, axes, "the second result"),
    ]


def cross_entropy(side: Implementation) -> list[Panel]:
    """One prediction between two words, by the probability of the right one; then a batch of six targets."""
    chances = [0.01, 0.02, *(i / 20 for i in range(1, 20)), 0.98, 0.99]
    two_words = [torch.tensor([[math.log(p), math.log(1 - p)]]) for p in chances]
    losses = [float(side.cross_entropy(logits, torch.tensor([0]))) for logits in two_words]
    logits, targets = 1.5 * random_tensor(2, 2, 3, 5), torch.tensor([[0, 4, 2], [1, 1, 3]])
    some = torch.tensor([[0, 4, -100], [1, -100, -100]])
    batch = [float(side.cross_entropy(logits, ids)) for ids in (targets, some, torch.full_like(targets, -100))]
    x_name = "probability of the right word"
    return [
        make_chart("the loss of one prediction", chances, {"loss": losses}, x_name, "loss"),
        make_bars("the loss of a batch of six", ["all count", "three count", "none counts"], batch, "loss"),
    ]


def warmup_cosine(side: Implementation) -> list[Panel]:
    steps, lines = range(111), {}
    for floor in (0.0, 0.2):
        lines[f"floor {floor:g}"] = [side.warmup_cosine(step, 10, 100, 1.0, floor) for step in steps]
    return [make_chart("warmup_cosine(step, 10, 100, 1)", steps, lines, "step", "learning rate")]


def adamw(side: Implementation) -> list[Panel]:
    """Down a valley that is steep across and flat along, from (-4, 2); once with strong decay."""
    path, lines = side.bring(optimizer_path), {}
    for name, decay in (("no decay", 0.0), ("decay 0.5", 0.5)):
        lines[name] = [(float(x), float(y)) for x, y in path(side.AdamW, decay, 40)]
    return [Chart("40 steps down a valley, lr=0.2", lines, "along", "across", square=True)]


def optimizer_path(optimizer, decay, steps):
    """The points of the path; this source is sent to the implementation's side."""
    place = torch.nn.Parameter(torch.tensor([-4.0, 2.0]))
    taken = optimizer([place], lr=0.2, weight_decay=decay)
    points = [place.tolist()]
    for _ in range(steps):
        taken.zero_grad()
        (0.5 * place[0] ** 2 + 5 * place[1] ** 2).backward()
        taken.step()
        points.append(place.tolist())
    return points
