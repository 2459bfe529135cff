"""Chapter 0's model of neighbours: the lesson's small text as a table, its loss, and what the model writes."""

from __future__ import annotations

import torch
from grader.execution.proxy import Implementation
from grader.teaching.show.panel_makers import make_bars, make_chart, make_grid
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
NEW_TEXT = [5, 2, 3, 0]  # "the dog ran ."
THIS_NEXT = ("token", "the next one")
N_DRAWN = 4000


def count_bigrams(side: Implementation) -> list[Panel]:
    counts = side.count_bigrams(TEXT, len(TOKENS))
    return [make_grid("the cat sat . the cat ran . the dog sat .", counts, TOKENS, TOKENS, THIS_NEXT)]


def bigram_probabilities(side: Implementation) -> list[Panel]:
    panels: list[Panel] = []
    for smoothing in (0.0, 1.0):
        table = side.bigram_probabilities(COUNTS, smoothing)
        panels.append(make_grid(f"smoothing {smoothing:g}", table, TOKENS, TOKENS, THIS_NEXT))
    return panels


def average_loss(side: Implementation) -> list[Panel]:
    smoothings = [0.02 * step for step in range(1, 101)]
    lines = {
        name: [side.average_loss(_smoothed(smoothing), ids) for smoothing in smoothings]
        for name, ids in (("the text that was counted", TEXT), ("the dog ran .", NEW_TEXT))
    }
    return [make_chart("average_loss", smoothings, lines, "smoothing", "loss")]


def write(side: Implementation) -> list[Panel]:
    """Every second token is `the`, so the one after it is drawn from the same row each time."""
    table = torch.eye(len(TOKENS))[[5] * len(TOKENS)]
    table[5] = _smoothed(0.5)[5]
    ids = side.write(table, 5, 2 * N_DRAWN)
    after = torch.as_tensor([int(token) for token in ids[1:]])
    drawn = torch.bincount(after[after != 5], minlength=len(TOKENS)) / max(1, int((after != 5).sum()))
    given = table[5].where(torch.arange(len(TOKENS)) != 5, 0.0)
    return [
        make_bars('after "the", if it is another word', TOKENS, given / given.sum(), "probability", given=True),
        make_bars(f"about {N_DRAWN} draws", TOKENS, drawn, "share", near=0.1),
    ]


def _smoothed(smoothing: float) -> torch.Tensor:
    counts = COUNTS + smoothing
    return counts / counts.sum(dim=1, keepdim=True)
