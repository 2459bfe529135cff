"""Positions that are rotated or penalised."""

from __future__ import annotations

import math

import torch
from grader.chapters.ch03_attention.show import OUTPUT_AND_WEIGHTS
from grader.execution.proxy import Implementation
from grader.teaching.show.panel_makers import QUERY_KEY, expect_pair, fix_weights, make_chart, make_grid, random_tensor
from grader.teaching.show.panels import Chart, Panel
from grader.verdict.comparing import shaped


def causal_self_attention(side: Implementation) -> list[Panel]:
    """The same vector at every position: only the position can make a difference."""
    x = random_tensor(4, 1, 1, 16).expand(1, 8, 16).contiguous()
    panels: list[Panel] = []
    for scheme in ("none", "rope", "alibi"):
        attention = fix_weights(side.CausalSelfAttention(16, 2, positions=scheme), 6, scale=1.6)
        _, weights = expect_pair(attention(x, return_weights=True), OUTPUT_AND_WEIGHTS)
        shaped(weights, (1, 2, 8, 8), "the second result")
        panels.append(make_grid(f'positions="{scheme}", head 0', weights[0, 0], 8, 8, QUERY_KEY))
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
