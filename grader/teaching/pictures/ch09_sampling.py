"""The picture of lesson 9."""

from __future__ import annotations

import math
from types import ModuleType

import torch
from grader.teaching.drawing.diagrams import heatmap
from torch import Tensor

WORDS = ["mat", "rug", "sofa", "roof", "moon"]
CHANCES = [0.4, 0.3, 0.15, 0.1, 0.05]


def draw(chapter: ModuleType) -> str:
    """The lesson's five words at three temperatures, each as it is, with two words left, with its nucleus, and with what min p leaves."""
    logits = torch.tensor(CHANCES).log()
    rows: dict[str, Tensor] = {}
    for temperature in (0.5, 1.0, 2.0):
        cooled = chapter.apply_temperature(logits, temperature)
        rows[f"temperature {temperature:g}"] = cooled
        rows["k = 2, " + f"temperature {temperature:g}"] = chapter.top_k_filter(cooled, 2)
        rows["p = 0.75, " + f"temperature {temperature:g}"] = chapter.top_p_filter(cooled, 0.75)
        rows["min_p = 0.3, " + f"temperature {temperature:g}"] = chapter.min_p_filter(cooled, 0.3)
    chances = [torch.softmax(row, -1).masked_fill(row == -math.inf, torch.nan) for row in rows.values()]
    return heatmap(torch.stack(chances), list(rows), WORDS, "The probability of each next word", column_name="word")
