"""Multi-head attention: queries, keys, values, weights, and the heads merged."""

from __future__ import annotations

from grader.teaching.drawing.flow.draw import flow
from grader.teaching.drawing.flow.items import Box, Column, Item, Panel, Split

VECTORS, HEADS, SCORES = "(B, T, D)", "(B, H, T, d_head)", "(B, H, T, T)"


def draw() -> str:
    scores: list[Item] = [
        Split([(-60, ["q"]), (60, ["k"])]),
        Box("q kᵀ / √d_head", "scores"),
        SCORES,
        Box("mask", "hidden keys: -inf"),
        SCORES,
        Box("softmax", "then dropout"),
        SCORES,
    ]
    items: list[Item] = [
        Box("x", kind="data", wide=110),
        VECTORS,
        Split([(distance, [Box(name, kind="learned", wide=100), VECTORS]) for distance, name in ((-120, "W_q"), (0, "W_k"), (120, "W_v"))]),
        Box("split_heads", f"each {HEADS}", wide=350),
        Split([(-65, scores), (120, ["v"])]),
        Box("weights @ v", "each query's weighted average", wide=350),
        HEADS,
        Box("merge_heads", wide=200),
        VECTORS,
        Box("W_out", kind="learned", wide=200),
        VECTORS,
        Box("output", kind="data", wide=110),
    ]
    return flow("Multi-head attention", [Panel([Column(188, items, wide=190)])])
