"""The pictures of the lesson that show numbers of the reference."""

from __future__ import annotations

from types import ModuleType

import torch
from grader.chapters.ch05_layers.measurements import sizes_of_numbers
from grader.teaching.drawing import curves


def ch05_layers(chapter: ModuleType) -> str:
    x = torch.linspace(-4, 2, 121, dtype=torch.float64)
    functions = {"gelu": chapter.gelu(x), "relu": torch.relu(x), "silu": x * torch.sigmoid(x)}
    lines = {name: list(zip(x.tolist(), y.tolist())) for name, y in functions.items()}
    return curves(lines, "Three activation functions", x_name="input", y_name="output")


def ch05_growth(chapter: ModuleType) -> str:
    """Draw how numbers grow in 48 feed-forward layers; in float64, so that every machine draws the same picture."""
    width, count = 256, 48
    norms = {"no norm": torch.nn.Identity(), "LayerNorm": chapter.LayerNorm(width), "RMSNorm": chapter.RMSNorm(width)}
    lines = {}
    for name, norm in norms.items():
        sizes = sizes_of_numbers(chapter, norm, width, count, 0, torch.float64)
        lines[name] = [(layer, sizes[layer - 1]) for layer in (1, *range(4, count + 1, 4))]
    title = "The size of the numbers in a deep network"
    return curves(lines, title, x_name="layers", y_name="root mean square", log=True)
