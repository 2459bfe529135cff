"""The picture of the lesson that shows numbers of the reference."""

from __future__ import annotations

import math
from collections.abc import Iterable
from types import ModuleType

import torch
from grader.teaching.drawing import curves
from torch import Tensor, nn

FEATURES, STATES, SHOWN = 5, 600, 150  # of the states, SHOWN are drawn
ROWS, STEPS, RATE = 12, 400, 0.05


def ch23_features(chapter: ModuleType) -> str:
    """Draw states with one of five features each, in two dimensions, and the rows of a dictionary that was trained."""
    states = _draw_states(torch.Generator().manual_seed(0))
    dictionary = _train(chapter, states)
    dead = chapter.dead_features(dictionary.encode(states), STATES).tolist()
    rows = dictionary.W_dec.tolist()
    lines = {
        "states": [(x, y) for x, y in states[:SHOWN].tolist()],
        "rows in use": _rays(row for row, is_dead in zip(rows, dead) if not is_dead),
        "dead rows": _rays(row for row, is_dead in zip(rows, dead) if is_dead),
    }
    title, looks = "Five features in two dimensions", [(0, 0), (1, 0), (2, 2)]
    return curves(lines, title, x_name="first number of the state", y_name="second", looks=looks, dots=["states"])


def _rays(rows: Iterable[list[float]]) -> list[tuple[float, float]]:
    """From the origin to each row and back, so that all are one line."""
    return [(0.0, 0.0), *(point for x, y in rows for point in ((x, y), (0.0, 0.0)))]


def _draw_states(generator: torch.Generator) -> Tensor:
    angles = 2 * math.pi * (torch.arange(FEATURES) + 0.3) / FEATURES
    directions = torch.stack([angles.cos(), angles.sin()], dim=1)
    active = torch.randint(FEATURES, (STATES,), generator=generator)
    strength = 0.3 + 0.7 * torch.rand(STATES, 1, generator=generator)
    return strength * directions[active] + 0.02 * torch.randn(STATES, 2, generator=generator)


def _train(chapter: ModuleType, states: Tensor) -> nn.Module:
    torch.manual_seed(0)
    dictionary = chapter.SparseAutoencoder(2, ROWS, 1)
    optimizer = torch.optim.Adam(dictionary.parameters(), lr=RATE)
    with torch.enable_grad():
        for _ in range(STEPS):
            optimizer.zero_grad()
            reconstruction, _ = dictionary(states)
            (states - reconstruction).square().sum(dim=1).mean().backward()
            dictionary.project_gradient()
            optimizer.step()
            dictionary.normalise()
    return dictionary
