"""The picture of lesson 3."""

from __future__ import annotations

from types import ModuleType

import torch
from grader.teaching.drawing.diagrams import heatmap
from torch import Tensor


def draw(chapter: ModuleType) -> str:
    """The causal weights of the lesson's sentence."""
    words = ["fish", "for", "the", "crane"]
    x = torch.tensor([[3.0, 0, 0], [0, 0, 2], [0, 0, 1], [1, 1, 0]])
    w_q, w_k, w_v = (torch.tensor(w) for w in ([[1.0, 1, 0], [0, 0, 1]], [[1.0, 1, 0], [1, 1, 1]], [[1.0, 0, 0], [0, 1, 0]]))
    _, weights = chapter.scaled_dot_product_attention(x @ w_q.T, x @ w_k.T, x @ w_v.T, mask=chapter.causal_mask(4))
    return heatmap(_future_left_out(weights), words, words, "Which word attends to which, and how much", row_name="query", column_name="key")


def _future_left_out(weights: Tensor) -> Tensor:
    return weights.masked_fill(torch.ones_like(weights, dtype=torch.bool).triu(1), torch.nan)
