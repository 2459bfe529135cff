"""Data and scale: pairs that meet, mixtures, and the laws of losses."""

from __future__ import annotations

from typing import Any

import torch
from grader.execution.proxy import Implementation
from grader.teaching.show.panel_makers import make_bars, make_chart, make_grid
from grader.teaching.show.panels import Panel
from grader.verdict.comparing import Mismatch

SIGNATURES = [[1, 2, 3, 4, 5, 6], [1, 2, 3, 9, 9, 9], [9, 9, 3, 4, 5, 7], [3, 4, 1, 2, 8, 8], [8, 8, 8, 8, 5, 6]]
WEIGHTS, DRAWS = [1.0, 2.0, 5.0], 800
COMPUTE, LOSSES = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0], [5.1, 4.3, 3.8, 3.3, 3.1, 2.8]


def candidate_pairs(side: Implementation) -> list[Panel]:
    """Five signatures of six numbers: which of them are a pair, for three numbers of bands."""
    panels: list[Panel] = []
    for bands in (2, 3, 6):
        table = torch.zeros(len(SIGNATURES), len(SIGNATURES))
        for i, j in side.candidate_pairs(SIGNATURES, bands):
            table[i, j] = 1.0
        names = [str(signature) for signature in SIGNATURES]
        words = ("apart", "a pair")
        panels.append(make_grid(f"pairs with {bands} bands", table, names, len(SIGNATURES), ("", "text"), words=words))
    return panels


def mixture(side: Implementation) -> list[Panel]:
    """How often each of three streams comes; the last one ends after 100 items."""
    counts = torch.tensor(side.bring(count_streams)(side.mixture, WEIGHTS, DRAWS), dtype=torch.float64)
    labels = [f"weight {weight:g}" for weight in WEIGHTS]
    return [
        make_bars(f"items in the first {DRAWS}", labels, counts[0], "items"),
        make_bars("the same, if the last stream ends after 100", labels, counts[1], "items"),
    ]


def count_streams(mixture: Any, weights: list[float], draws: int) -> list[list[int]]:
    """Counts with endless streams, and with a last one of 100 items; this source is sent to the implementation's
    side."""
    found = []
    for length in (draws, 100):
        streams = [[number] * draws for number in range(len(weights) - 1)] + [[len(weights) - 1] * length]
        mixed = mixture(streams, weights, torch.Generator().manual_seed(1))
        first = [item for item, _ in zip(mixed, range(draws))]
        found.append([first.count(number) for number in range(len(weights))])
    return found


def fit_power_law(side: Implementation) -> list[Panel]:
    fitted = side.fit_power_law(COMPUTE, LOSSES)
    if not isinstance(fitted, tuple | list) or len(fitted) != 3:
        raise Mismatch("fit_power_law should return three numbers, (a, b, c)", fitted)
    a, b, c = map(float, fitted)
    further = [*COMPUTE, 64.0, 128.0, 256.0]
    through = {"measured": LOSSES, "fitted": [a + b * x**-c for x in COMPUTE]}
    beyond = {"fitted": [a + b * x**-c for x in further], "a, the limit": [a] * len(further)}
    return [
        make_chart("a law through six losses", COMPUTE, through, "training", "loss"),
        make_chart("eight times further", further, beyond, "training", "loss"),
    ]
