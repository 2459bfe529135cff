"""The layers of a block: two feed-forward networks and two norms, side by side."""

from __future__ import annotations

from grader.teaching.drawing.flow.draw import flow
from grader.teaching.drawing.flow.items import Box, Column, Item, Panel, Sign, Split

VECTORS, WIDER = "(..., D)", "(..., d_ff)"


def draw() -> str:
    feed_forward: list[Item] = [
        Box("x", kind="data", wide=70),
        VECTORS,
        Box("up", "D to d_ff", kind="learned"),
        WIDER,
        Box("gelu", "or relu"),
        WIDER,
        Box("down", "d_ff to D", kind="learned"),
        VECTORS,
        Box("dropout", "in training"),
        VECTORS,
        Box("output", kind="text"),
    ]
    gate: list[Item] = [Box("gate", "D to d_ff", kind="learned", wide=92), Box("silu", wide=92)]
    swiglu: list[Item] = [
        Box("x", kind="data", wide=70),
        VECTORS,
        Split([(-50, gate), (50, [Box("up", "D to d_ff", kind="learned", wide=92)])]),
        Sign("×"),
        WIDER,
        Box("down", "d_ff to D", kind="learned"),
        VECTORS,
        Box("output", kind="text"),
    ]
    layer_norm: list[Item] = [
        Box("x", kind="data", wide=70),
        VECTORS,
        Box("- mean"),
        VECTORS,
        Box("/ std", "√(variance + eps)"),
        VECTORS,
        Box("× weight + bias", kind="learned"),
        VECTORS,
        Box("output", kind="text"),
    ]
    rms_norm: list[Item] = [
        Box("x", kind="data", wide=70),
        VECTORS,
        Box("/ rms", "√(mean x² + eps)"),
        VECTORS,
        Box("× weight", kind="learned"),
        VECTORS,
        Box("output", kind="text"),
    ]
    layers = Panel([Column(82, feed_forward, heading="FeedForward", wide=130), Column(292, swiglu, heading="SwiGLU", wide=130)])
    norms = Panel([Column(100, layer_norm, heading="LayerNorm", wide=164), Column(300, rms_norm, heading="RMSNorm", wide=164)])
    return flow("Feed-forward networks and norms", [layers, norms])
