"""The picture of lesson 5."""

from __future__ import annotations

from types import ModuleType

import torch
from grader.teaching.drawing.charts import curves


def draw(chapter: ModuleType) -> str:
    """The activation functions of the chapter: gelu, relu and silu."""
    x = torch.linspace(-4, 2, 121, dtype=torch.float64)
    bends = {"gelu": chapter.gelu(x), "relu": torch.relu(x), "silu": x * torch.sigmoid(x)}
    lines = {name: list(zip(x.tolist(), y.tolist())) for name, y in bends.items()}
    return curves(lines, "Three activation functions", x_name="input", y_name="output")
