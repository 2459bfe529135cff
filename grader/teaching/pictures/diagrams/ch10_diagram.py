"""Attention with a cache, and how the cache grows."""

from __future__ import annotations

from grader.teaching.drawing.flow.draw import flow
from grader.teaching.drawing.flow.items import Box, Column, Item, Link, Panel, Split

NEW, SCORES = "(B, H, T, d_head)", "(B, H, T, P + T)"


def draw() -> str:
    append: list[Item] = ["k, v", Box("append to the cache", "each (B, H, P + T, d_head)", wide=214)]
    items: list[Item] = [
        Box("x: the new positions", kind="data", wide=210),
        "(B, T, D)",
        Box("W_q, W_k, W_v", f"each {NEW}", kind="learned", wide=330, chapter="4"),
        Split([(-125, ["q"]), (50, [*append, "all k"])]),
        Box("q kᵀ / √d_head, mask, softmax", SCORES, wide=330, chapter="3"),
        SCORES,
        Box("weights @ v", "all v of the cache", wide=180, chapter="3"),
        NEW,
        Box("W_out", "after merge_heads", kind="learned", wide=180, chapter="4"),
        "(B, T, D)",
        Box("output", kind="text"),
    ]
    growth: list[Item] = [
        Box("prefill: T = 5, P = 0", kind="data", cells=(0, 5)),
        "one token",
        Box("then T = 1, P = 5", kind="data", cells=(5, 1)),
        "one token",
        Box("then T = 1, P = 6", kind="data", cells=(6, 1)),
    ]
    link = Link("append to the cache", "weights @ v", ("right", "right"), bend=384, place=-18)
    panels = [Panel([Column(200, items)], [link]), Panel([Column(200, growth, wide=230, heading="The cache after each pass")], upward=False)]
    return flow("Attention with a KV cache", panels)
