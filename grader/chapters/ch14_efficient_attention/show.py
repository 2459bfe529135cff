"""Attention in blocks of keys."""

from __future__ import annotations

import torch
from grader.chapters.ch03_attention.show import MASK_WORDS
from grader.execution.proxy import Implementation
from grader.teaching.show.panel_makers import (
    QUERY_KEY,
    WORDS,
    expect_pair,
    first_result,
    influence_grid,
    make_chart,
    make_grid,
    random_tensor,
)
from grader.teaching.show.panels import Panel
from grader.verdict.comparing import describe_value, shaped
from torch import Tensor

WINDOW = 3


def sliding_window_mask(side: Implementation) -> list[Panel]:
    masks = side.sliding_window_mask(7, WINDOW), side.sliding_window_mask(3, WINDOW, 7)
    return [
        make_grid(f"window = {WINDOW}", masks[0], WORDS, WORDS, QUERY_KEY, words=MASK_WORDS),
        make_grid("the last 3 queries", masks[1], WORDS[4:], WORDS, QUERY_KEY, words=MASK_WORDS),
    ]


def merge_attention(side: Implementation) -> list[Panel]:
    """A group with output 0 and one with output 1: the merged output is the share of the second group."""
    differences = [i / 4 for i in range(-24, 25)]
    lse_a, lse_b = torch.zeros(49), torch.tensor(differences)
    pair = side.merge_attention(torch.zeros(49, 1), lse_a, torch.ones(49, 1), lse_b)
    wanted = f"merge_attention should return an output and an lse; it returned {describe_value(pair)}"
    output, lse = expect_pair(pair, wanted)
    shares = {"merged output": shaped(output, (49, 1), "the output")[:, 0]}
    merged = {"merged lse": shaped(lse, (49,), "lse")}
    x_name = "lse of the second group"
    return [
        make_chart("the share of the second group", differences, shares, x_name, "output"),
        make_chart("lse of both groups", differences, merged, x_name, "lse"),
    ]


def tiled_attention(side: Implementation) -> list[Panel]:
    """Which outputs depend on which words: the same for every block, since strips are only an order of work."""

    def influence(block: int) -> Panel:
        def attend(rows: Tensor) -> object:
            return first_result(side.tiled_attention(rows, rows, rows, block, True))

        return influence_grid(f"causal, block = {block}", attend, random_tensor(2, 7, 16))

    return [influence(2), influence(7)]


def windowed_attention(side: Implementation) -> list[Panel]:
    """One layer, and two layers: information from two windows away arrives in the second one."""

    def one(rows: Tensor) -> Tensor:
        return side.windowed_attention(rows, rows, rows, WINDOW)

    def two(rows: Tensor) -> Tensor:
        return one(shaped(one(rows), tuple(rows.shape), "the output"))

    x = random_tensor(2, 10, 16)
    layers = (("one layer", one), ("two layers", two))
    return [influence_grid(f"{name}, window = {WINDOW}", call, x, 10, 10) for name, call in layers]
