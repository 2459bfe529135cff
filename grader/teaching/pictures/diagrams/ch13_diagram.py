"""The backward pass of a small model, and what each function needs from the forward pass."""

from __future__ import annotations

from grader.teaching.drawing.flow.draw import flow
from grader.teaching.drawing.flow.items import Box, Column, Item, Link, Panel

NEEDS = {"loss": "logits, targets", "head": "input, weight", "gelu": "its input", "first layer": "input, weight", "embedding": "ids"}


def draw() -> str:
    backward: list[Item] = [
        Box("loss", "cross_entropy_backward"),
        "(B, T, V)",
        Box("head", "linear_backward"),
        "(B, T, d_ff)",
        Box("gelu", "gelu_backward"),
        "(B, T, d_ff)",
        Box("first layer", "linear_backward"),
        "(B, T, D)",
        Box("embedding", "embedding_backward"),
        "(V, D)",
        Box("gradient of the table", kind="data"),
    ]
    needed = [Column(312, [Box(what, kind="data", key=f"needed by {layer}")], wide=140, beside=layer) for layer, what in NEEDS.items()]
    links = [Link(f"needed by {layer}", layer, ("left", "right")) for layer in NEEDS]
    return flow("A backward pass", [Panel([Column(116, backward, wide=200), *needed], links, upward=False)])
