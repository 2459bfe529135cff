"""Words as vectors, and positions that are added to them."""

from __future__ import annotations

import torch
from grader.execution.proxy import Implementation, load
from grader.teaching.show.panel_makers import POSITION_FEATURE, WORDS, make_grid, random_tensor
from grader.teaching.show.panels import Panel
from grader.verdict.comparing import shaped

WORD_FEATURE = ("word", "feature")
LENGTH = 24


def token_embedding(side: Implementation) -> list[Panel]:
    ids, table = torch.tensor([[0, 1, 2, 3, 0, 4, 5]]), random_tensor(3, 6, 9)
    panels: list[Panel] = []
    for title, scale in (("TokenEmbedding(6, 9)", False), ("with scale=True: 3 times as large", True)):
        embedding = side.TokenEmbedding(6, 9, scale=scale)
        load(embedding, {"weight": table})
        vectors = shaped(embedding(ids), (1, 7, 9), "the result")
        panels.append(make_grid(title, vectors[0], WORDS, 9, WORD_FEATURE))
    return panels


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
