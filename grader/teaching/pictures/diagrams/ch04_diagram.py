"""Where RoPE and ALiBi enter causal self-attention."""

from __future__ import annotations

from grader.teaching.drawing.flow.draw import flow
from grader.teaching.drawing.flow.items import Box, Column, Item, Panel, Split

VECTORS, HEADS, SCORES = "(B, T, D)", "(B, H, T, d_head)", "(B, H, T, T)"


def draw() -> str:
    scores: list[Item] = [
        Split([(-60, ["q"]), (60, ["k"])]),
        Box("RoPE", "rotate by position", kind="optional"),
        Split([(-60, ["q"]), (60, ["k"])]),
        Box("q kᵀ / √d_head", chapter="3"),
        SCORES,
        Box("+ ALiBi bias", "(H, T, T)", kind="optional"),
        SCORES,
        Box("causal mask", "(T, T)", chapter="3"),
        SCORES,
        Box("softmax", "then dropout", chapter="3"),
        SCORES,
    ]
    items: list[Item] = [
        Box("x", kind="data", wide=110),
        VECTORS,
        Box("W_q, W_k, W_v", f"each {HEADS}", kind="learned", wide=350, chapter="3"),
        Split([(-65, scores), (125, ["v"])]),
        Box("weights @ v", wide=350, chapter="3"),
        HEADS,
        Box("W_out", "after merge_heads", kind="learned", wide=200, chapter="3"),
        VECTORS,
        Box("output", kind="data", wide=110),
    ]
    return flow("Where distance enters attention", [Panel([Column(200, items, wide=190)])])
