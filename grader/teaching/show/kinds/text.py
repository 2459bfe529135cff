"""Text as numbers and vectors, and positions that are added, rotated or penalised."""

from __future__ import annotations

import math

import torch
from grader.execution.proxy import Implementation, load
from grader.teaching.show.panel_makers import (
    POSITION_FEATURE,
    QUERY_KEY,
    WORDS,
    make_chart,
    make_grid,
    random_tensor,
)
from grader.teaching.show.panels import Chart, Panel
from grader.verdict.comparing import Mismatch, shaped

TEXT = "the cat sat on the mat"
WORD_FEATURE = ("word", "feature")
LENGTH = 24


def count_pairs(side: Implementation) -> list[Panel]:
    letters = sorted(set(TEXT))
    counts = side.count_pairs([letters.index(letter) for letter in TEXT])
    if not isinstance(counts, dict):
        raise Mismatch(f"count_pairs should return a dict; it returned {type(counts).__name__}")
    table = torch.zeros(len(letters), len(letters))
    for (first, second), count in counts.items():
        table[first, second] = count
    labels = ["_" if letter == " " else letter for letter in letters]
    return [make_grid(f'"{TEXT}"', table, labels, labels, ("letter", "the next (_ is a space)"))]


def token_embedding(side: Implementation) -> list[Panel]:
    ids, table = torch.tensor([[0, 1, 2, 3, 0, 4, 5]]), random_tensor(3, 6, 9)
    panels: list[Panel] = []
    for title, scale in (("TokenEmbedding(6, 9)", False), ("with scale=True: 3 times as large", True)):
        embedding = side.TokenEmbedding(6, 9, scale=scale)
        load(embedding, {"weight": table})
        vectors = shaped(embedding(ids), (1, 7, 9), "the result")
        panels.append(make_grid(title, vectors[0], WORDS, 9, WORD_FEATURE))
    return panels


def collate(side: Implementation) -> list[Panel]:
    inputs, targets = side.collate([([4, 2, 7, 5], [2, 7, 5, 9]), ([6, 3], [3, 8]), ([1, 5, 2], [5, 2, 6])])
    if isinstance(targets, torch.Tensor):
        targets = targets.to(torch.float64).where(targets != -100, -2)
    rows, axes = [f"sentence {i}" for i in range(3)], ("", "position")
    return [
        make_grid("inputs, padded with 0", inputs, rows, 4, axes, "the first result"),
        make_grid("targets, with -2 shown for -100", targets, rows, 4, axes, "the second result"),
    ]


def sinusoidal_positions(side: Implementation) -> list[Panel]:
    table = side.sinusoidal_positions(LENGTH, LENGTH)
    return [make_grid(f"sinusoidal_positions({LENGTH}, {LENGTH})", table, LENGTH, LENGTH, POSITION_FEATURE)]


def sinusoidal_module(side: Implementation) -> list[Panel]:
    module, x = side.SinusoidalPositions(LENGTH, 16), random_tensor(1, 1, 12, 16)
    panels: list[Panel] = []
    for start in (0, 5):
        added = shaped(module(x, start=start), (1, 12, 16), "the result") - x
        rows = range(start, start + 12)
        panels.append(make_grid(f"what it adds, start={start}", added[0], rows, 16, POSITION_FEATURE))
    return panels


def learned_positions(side: Implementation) -> list[Panel]:
    """The table has a distinct value in each row, so the result shows which rows are used."""
    table = torch.linspace(-1, 1, 12)[:, None] + 0.15 * random_tensor(2, 12, 10)
    module, x = side.LearnedPositions(12, 10), random_tensor(1, 1, 7, 10)
    load(module, {"weight": table})
    panels: list[Panel] = [make_grid("the table", table, 12, 10, POSITION_FEATURE, given=True)]
    for start in (0, 4):
        added = shaped(module(x, start=start), (1, 7, 10), "the result") - x
        panels.append(make_grid(f"what is added, start={start}", added[0], WORDS, 10, WORD_FEATURE))
    return panels


def rope_angles(side: Implementation) -> list[Panel]:
    positions = torch.arange(25)
    angles = shaped(side.rope_angles(positions, 8, base=100.0), (25, 4), "the result")
    lines = {f"pair {i}": angles[:, i] for i in range(4)}
    title = "rope_angles(positions, 8, base=100)"
    return [make_chart(title, positions.tolist(), lines, "position", "angle in radians")]


def apply_rope(side: Implementation) -> list[Panel]:
    """Two pairs of features that both start at (1, 0); then the score of two equal vectors by their distance."""
    x = torch.tensor([[1.0, 0, 1, 0]]).repeat(7, 1)
    turned = shaped(side.apply_rope(x, torch.arange(7), base=100.0), (7, 4), "the result")
    paths = {f"pair {i}": [(float(x), float(y)) for x, y in turned[:, 2 * i : 2 * i + 2]] for i in range(2)}
    distances = torch.arange(33)
    ones = torch.ones(1, 8)
    query, keys = side.apply_rope(ones, torch.tensor([32])), side.apply_rope(ones.repeat(33, 1), 32 - distances)
    scores = (shaped(query, (1, 8), "the result") @ shaped(keys, (33, 8), "the result").T)[0] / math.sqrt(8)
    title = "a query at 32, and the same key before it"
    return [
        Chart("(1, 0) turned, positions 0 to 6", paths, "first of the pair", "second", square=True),
        make_chart(title, distances.tolist(), {"score": scores}, "distance", "score"),
    ]


def alibi_bias(side: Implementation) -> list[Panel]:
    bias = shaped(side.alibi_bias(4, 5, 8), (4, 5, 8), "the bias")
    lines = {f"head {head}": bias[head, -1] for head in range(4)}
    return [
        make_grid("alibi_bias(4, 5, 8), head 0", bias[0], range(3, 8), 8, QUERY_KEY),
        make_chart("what the last query adds", range(8), lines, "key", "bias"),
    ]
