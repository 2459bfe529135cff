"""The picture of lesson 13."""

from __future__ import annotations

from types import ModuleType

import torch
from grader.teaching.drawing.diagrams import heatmap

WORDS = ["mat", "rug", "sofa", "roof", "moon"]
WEIGHTS = [0.4, 0.3, 0.15, 0.1, 0.05]


def draw(chapter: ModuleType) -> str:
    """How each weight of a softmax depends on each score."""
    weights = torch.tensor(WEIGHTS).expand(len(WORDS), -1)
    slopes = chapter.softmax_backward(weights, torch.eye(len(WORDS)))
    return heatmap(slopes, WORDS, WORDS, "How much each weight grows with each score", row_name="weight", column_name="score")
