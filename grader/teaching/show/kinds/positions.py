"""Positions: tables that are added, rotations, penalties by distance."""

from __future__ import annotations

import math

import torch
from grader.execution.proxy import Implementation, load
from grader.teaching.show.panel_makers import WORDS, make_bars, make_chart, make_grid, number_labels, random_tensor
from grader.teaching.show.panels import Chart, Panel
from grader.verdict.comparing import shaped

TABLE = dict(row_name="position", column_name="feature")
LONG = 24


def sinusoidal_positions(side: Implementation) -> list[Panel]:
    return [make_grid(f"sinusoidal_positions({LONG}, {LONG})", side.sinusoidal_positions(LONG, LONG), number_labels(LONG), number_labels(LONG), **TABLE)]


def sinusoidal_module(side: Implementation) -> list[Panel]:
    """What is added to a sequence, from position 0 and from position 5 on."""
    module, x = side.SinusoidalPositions(LONG, 16), random_tensor(1, 1, 12, 16)
    panels: list[Panel] = []
    for start in (0, 5):
        added = shaped(module(x, start=start), (1, 12, 16), "the result") - x
        panels.append(make_grid(f"what it adds, start={start}", added[0], range(start, start + 12), number_labels(16), **TABLE))
    return panels


def learned_positions(side: Implementation) -> list[Panel]:
    """The table has a distinct value in each row, so the result shows which rows are used."""
    table = torch.linspace(-1, 1, 12)[:, None] + 0.15 * random_tensor(2, 12, 10)
    module, x = side.LearnedPositions(12, 10), random_tensor(1, 1, 7, 10)
    load(module, {"weight": table})
    panels: list[Panel] = [make_grid("the table", table, number_labels(12), number_labels(10), given=True, **TABLE)]
    for start in (0, 4):
        added = shaped(module(x, start=start), (1, 7, 10), "the result") - x
        panels.append(make_grid(f"what is added, start={start}", added[0], WORDS, number_labels(10), row_name="word", column_name="feature"))
    return panels


def rope_angles(side: Implementation) -> list[Panel]:
    positions = torch.arange(25)
    angles = shaped(side.rope_angles(positions, 8, base=100.0), (25, 4), "the result")
    return [make_chart("rope_angles(positions, 8, base=100)", positions.tolist(), {f"pair {i}": angles[:, i] for i in range(4)}, "position", "angle in radians")]


def apply_rope(side: Implementation) -> list[Panel]:
    """Two pairs of features that both start at (1, 0); then the score of two equal vectors by their distance."""
    turned = shaped(side.apply_rope(torch.tensor([[1.0, 0, 1, 0]]).repeat(7, 1), torch.arange(7), base=100.0), (7, 4), "the result")
    ways = {f"pair {i}": [(float(x), float(y)) for x, y in turned[:, 2 * i : 2 * i + 2]] for i in range(2)}
    distances = torch.arange(33)
    ones = torch.ones(1, 8)
    query, keys = side.apply_rope(ones, torch.tensor([32])), side.apply_rope(ones.repeat(33, 1), 32 - distances)
    scores = (shaped(query, (1, 8), "the result") @ shaped(keys, (33, 8), "the result").T)[0] / math.sqrt(8)
    return [
        Chart("(1, 0) turned, positions 0 to 6", ways, "first of the pair", "second", square=True),
        make_chart("a query at 32, and the same key before it", distances.tolist(), {"score": scores}, "distance", "score"),
    ]


def alibi_slopes(side: Implementation) -> list[Panel]:
    return [make_bars(f"alibi_slopes({n})", [f"head {i}" for i in range(n)], side.alibi_slopes(n), "slope") for n in (8, 6)]


def alibi_bias(side: Implementation) -> list[Panel]:
    """One head's table, and the last query's row of every head."""
    bias = shaped(side.alibi_bias(4, 5, 8), (4, 5, 8), "the bias")
    table = make_grid("alibi_bias(4, 5, 8), head 0", bias[0], range(3, 8), number_labels(8), row_name="query", column_name="key")
    return [table, make_chart("what the last query adds", list(range(8)), {f"head {head}": bias[head, -1] for head in range(4)}, "key", "bias")]
