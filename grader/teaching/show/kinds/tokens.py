"""Text as numbers, and numbers as vectors."""

from __future__ import annotations

import torch
from grader.execution.proxy import Implementation, load
from grader.teaching.show.panel_makers import WORDS, make_grid, number_labels, random_tensor
from grader.teaching.show.panels import Grid, Panel
from grader.verdict.comparing import Mismatch, shaped

TEXT = "the cat sat on the mat"


def count_pairs(side: Implementation) -> list[Panel]:
    """How often each letter follows each other letter."""
    letters = sorted(set(TEXT))
    counts = side.count_pairs([letters.index(letter) for letter in TEXT])
    if not isinstance(counts, dict):
        raise Mismatch(f"count_pairs should return a dict; it returned {type(counts).__name__}")
    table = torch.zeros(len(letters), len(letters))
    for (first, second), count in counts.items():
        table[first, second] = count
    labels = ["_" if letter == " " else letter for letter in letters]
    return [make_grid(f'"{TEXT}"', table, labels, labels, row_name="letter", column_name="the next (_ is a space)")]


def token_embedding(side: Implementation) -> list[Panel]:
    """The same word gets the same row at every position."""
    ids, table = torch.tensor([[0, 1, 2, 3, 0, 4, 5]]), random_tensor(3, 6, 9)
    panels: list[Panel] = []
    for title, scale in (("TokenEmbedding(6, 9)", False), ("with scale=True: 3 times as large", True)):
        embedding = side.TokenEmbedding(6, 9, scale=scale)
        load(embedding, {"weight": table})
        vectors = shaped(embedding(ids), (1, 7, 9), "the result")
        panels.append(make_grid(title, vectors[0], WORDS, number_labels(9), row_name="word", column_name="feature"))
    return panels


def collate(side: Implementation) -> list[Panel]:
    """Three sentences of different lengths, in one table of inputs and one of targets."""
    pairs = [([4, 2, 7, 5], [2, 7, 5, 9]), ([6, 3], [3, 8]), ([1, 5, 2], [5, 2, 6])]
    inputs, targets = side.collate(pairs)
    rows = [f"sentence {i}" for i in range(3)]
    axes = dict(column_name="position")
    hidden = targets.to(torch.float64).where(targets != -100, -2) if isinstance(targets, torch.Tensor) else targets
    tables: list[Grid] = [make_grid("inputs, padded with 0", inputs, rows, range(4), "the first result", **axes)]
    return [*tables, make_grid("targets, with -2 shown for -100", hidden, rows, range(4), "the second result", **axes)]
