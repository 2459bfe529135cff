"""Attention with less memory: groups of keys that are merged, masks of a window, and which outputs depend on which inputs."""

from __future__ import annotations

import torch
from grader.execution.proxy import Implementation
from grader.teaching.show.kinds.masks import SEEN
from grader.teaching.show.panel_makers import WORDS, make_chart, make_grid, measure_influence, number_labels, random_tensor
from grader.teaching.show.panels import Panel
from grader.verdict.comparing import Mismatch, describe_value, shaped

D, WINDOW, BLOCK = 16, 3, 2
MAP = dict(row_name="output at", column_name="changed at")


def merge_attention(side: Implementation) -> list[Panel]:
    """A group with output 0 and one with output 1: the merged output is the share of the second group."""
    differences = [i / 4 for i in range(-24, 25)]
    lse_b = torch.tensor(differences)
    zero, one = torch.zeros(len(differences), 1), torch.ones(len(differences), 1)
    pair = side.merge_attention(zero, torch.zeros(len(differences)), one, lse_b)
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise Mismatch(f"merge_attention should return an output and an lse; it returned {describe_value(pair)}", pair)
    output, lse = shaped(pair[0], tuple(zero.shape), "the output"), shaped(pair[1], tuple(lse_b.shape), "lse")
    return [
        make_chart("the share of the second group", differences, {"merged output": output[:, 0].tolist()}, "lse of the second group", "output"),
        make_chart("lse of both groups", differences, {"merged lse": lse.tolist()}, "lse of the second group", "lse"),
    ]


def tiled_attention(side: Implementation) -> list[Panel]:
    """Which outputs depend on which words: the same for every block, since strips are only an order of work."""

    def influence(block: int) -> torch.Tensor:
        def attend(rows: torch.Tensor) -> object:
            pair = side.tiled_attention(rows, rows, rows, block, True)
            return pair[0] if isinstance(pair, tuple | list) and pair else pair

        return measure_influence(attend, random_tensor(2, len(WORDS), D))

    return [make_grid(f"causal, block = {block}", influence(block), WORDS, WORDS, **MAP) for block in (BLOCK, len(WORDS))]


def sliding_window_mask(side: Implementation) -> list[Panel]:
    """A window of three words, and the mask of the last three words."""
    whole = make_grid(f"window = {WINDOW}", side.sliding_window_mask(7, WINDOW), WORDS, WORDS, row_name="query", column_name="key", words=SEEN)
    last = make_grid("the last 3 queries", side.sliding_window_mask(3, WINDOW, 7), WORDS[4:], WORDS, row_name="query", column_name="key", words=SEEN)
    return [whole, last]


def windowed_attention(side: Implementation) -> list[Panel]:
    """One layer, and two layers: information from two windows away arrives in the second one."""

    def one(rows: torch.Tensor) -> torch.Tensor:
        return side.windowed_attention(rows, rows, rows, WINDOW)

    def two(rows: torch.Tensor) -> torch.Tensor:
        first = shaped(one(rows), tuple(rows.shape), "the output")
        return one(first)

    x, labels = random_tensor(2, 10, D), number_labels(10)
    return [
        make_grid(f"{name}, window = {WINDOW}", measure_influence(call, x), labels, labels, **MAP)
        for name, call in (("one layer", one), ("two layers", two))
    ]
