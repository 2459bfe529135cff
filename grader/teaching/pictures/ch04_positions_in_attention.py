"""The picture of lesson 4."""

from __future__ import annotations

import math
from types import ModuleType

import torch
from grader.teaching.drawing.charts import curves

FARTHEST, D_HEAD = 32, 8


def draw(chapter: ModuleType) -> str:
    """The weight of a key at each distance, relative to the same key at distance 0: three heads with ALiBi, one with RoPE."""
    distances = torch.arange(FARTHEST + 1)
    bias = chapter.alibi_bias(4, 1, FARTHEST + 1)[:, 0].flip(-1)  # by distance, nearest first
    lines = {f"ALiBi, slope 1/{round(-1 / float(bias[head, 1]))}": bias[head] for head in (0, 1, 2)}
    vector = torch.ones(1, D_HEAD)
    keys, query = chapter.apply_rope(vector.expand(FARTHEST + 1, D_HEAD), -distances), chapter.apply_rope(vector, torch.tensor([0]))
    scores = (query @ keys.T)[0] / math.sqrt(D_HEAD)
    lines["RoPE, 8 features"] = scores - scores[0]
    points = {name: [(int(d), math.exp(float(s))) for d, s in zip(distances, line)] for name, line in lines.items()}
    return curves(points, "The weight of a key by its distance", x_name="distance from the query", y_name="weight relative to distance 0")
