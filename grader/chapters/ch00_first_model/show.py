"""Chapter 0's model of neighbours: the lesson's small text as a table."""

from __future__ import annotations

import torch
from grader.execution.proxy import Implementation
from grader.teaching.show.panel_makers import make_grid
from grader.teaching.show.panels import Panel

TOKENS = (".", "cat", "dog", "ran", "sat", "the")
TEXT = [5, 1, 4, 0, 5, 1, 3, 0, 5, 2, 4, 0]  # "the cat sat . the cat ran . the dog sat ."
COUNTS = torch.tensor(
    [
        [0, 0, 0, 0, 0, 2],
        [0, 0, 0, 1, 1, 0],
        [0, 0, 0, 0, 1, 0],
        [1, 0, 0, 0, 0, 0],
        [2, 0, 0, 0, 0, 0],
        [0, 2, 1, 0, 0, 0],
    ]
)
THIS_NEXT = ("token", "the next one")


def count_bigrams(side: Implementation) -> list[Panel]:
    counts = side.count_bigrams(TEXT, len(TOKENS))
    return [make_grid("the cat sat . the cat ran . the dog sat .", counts, TOKENS, TOKENS, THIS_NEXT)]


def bigram_probabilities(side: Implementation) -> list[Panel]:
    panels: list[Panel] = []
    for smoothing in (0.0, 1.0):
        table = side.bigram_probabilities(COUNTS, smoothing)
        panels.append(make_grid(f"smoothing {smoothing:g}", table, TOKENS, TOKENS, THIS_NEXT))
    return panels
