"""The picture of lesson 7."""

from __future__ import annotations

from types import ModuleType

import torch
from grader.teaching.drawing.diagrams import heatmap


def draw(chapter: ModuleType) -> str:
    """Which position may attend to which in the translator: one number for each of its three masks."""
    source, target = ["the", "crane", "eats", "fish", "<pad>"], ["<s>", "la", "grue", "mange", "<pad>"]
    real = torch.tensor([[1, 1, 1, 1, 0]])
    keys = chapter.padding_mask(real, 0)[0, 0]  # (1, 5): the same for source and target here
    own = (keys & chapter.causal_mask(len(target))).float()  # (5, 5)
    table = torch.zeros(10, 10)
    table[:5, :5], table[5:, :5], table[5:, 5:] = keys * 1.0, keys * 2.0, own * 3
    return heatmap(
        table.masked_fill(table == 0, torch.nan),
        source + target,
        source + target,
        "Which position may attend to which: 1 encoder, 2 memory, 3 target",
        row_name="query",
        column_name="key",
    )
