"""The picture of lesson 11."""

from __future__ import annotations

from types import ModuleType

import torch
from grader.teaching.drawing.diagrams import heatmap

SENTENCE = "the crane sees the fish and the cat".split()
N_EXPERTS, TOP_K, D_MODEL = 5, 2, 16


def draw(chapter: ModuleType) -> str:
    """A routing table: each word's weights on its two experts, and below them what the balance loss is made of."""
    chance = torch.Generator().manual_seed(7)
    words = sorted(set(SENTENCE))
    vectors = torch.randn(len(words), D_MODEL, generator=chance)
    router = torch.randn(N_EXPERTS, D_MODEL, generator=chance) / D_MODEL**0.5
    logits = vectors[[words.index(word) for word in SENTENCE]] @ router.T  # (T, N)
    weights, experts = chapter.route(logits, TOP_K)
    probs = logits.softmax(-1)
    loss = float(chapter.load_balancing_loss(probs, experts))
    table = torch.full_like(probs, torch.nan).scatter(-1, experts, weights)
    share = torch.bincount(experts.flatten(), minlength=N_EXPERTS) / experts.numel()
    return heatmap(
        torch.cat([table, torch.stack([share, probs.mean(dim=0)])]),
        [*SENTENCE, "f", "P"],
        [str(i) for i in range(N_EXPERTS)],
        f"Two experts per word; balance loss {loss:.2f}",
        column_name="expert",
    )
