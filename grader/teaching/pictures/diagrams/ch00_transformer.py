"""The whole GPT, with the chapter of each part."""

from __future__ import annotations

from grader.teaching.drawing.flow.draw import flow
from grader.teaching.drawing.flow.items import Box, Column, Group, Item, Panel, Residual, Split

VECTORS = "(B, T, D)"


def draw() -> str:
    attention = Residual([Box("norm", kind="learned", chapter="5"), VECTORS, Box("attention", kind="learned", chapter="3, 4"), VECTORS])
    feed_forward = Residual([Box("norm", kind="learned", chapter="5", key="norm 2"), VECTORS, Box("feed-forward", kind="learned", chapter="5"), VECTORS])
    training: list[Item] = ["(B, T, V)", Box("cross-entropy", "training", chapter="8", wide=156), "()", Box("loss", kind="text")]
    sampling: list[Item] = ["(B, V)", Box("sampling", "last position", chapter="9", wide=156), "(B,)", Box("next token", kind="text")]
    items: list[Item] = [
        Box("text", kind="text"),
        "str",
        Box("tokenizer", chapter="1"),
        "ids (B, T)",
        Box("token embedding", kind="learned", chapter="2"),
        VECTORS,
        Box("add positions", kind="learned", chapter="2"),
        VECTORS,
        Group("N blocks", [attention, VECTORS, feed_forward], chapter="6", right=8),
        VECTORS,
        Box("last norm", kind="learned", chapter="5"),
        VECTORS,
        Box("head", kind="learned", chapter="7"),
        "logits",
        Split([(-95, training), (95, sampling)]),
    ]
    return flow("A GPT, with the chapter of each part", [Panel([Column(205, items, wide=184)])])
