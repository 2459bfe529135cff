"""The training loop, one step of it."""

from __future__ import annotations

from grader.teaching.drawing.flow.draw import flow
from grader.teaching.drawing.flow.items import Box, Column, Item, Link, Panel


def draw() -> str:
    step: list[Item] = [
        Box("batch", "from collate", kind="data"),
        "(B, T)",
        Box("model", kind="learned", chapter="7"),
        "(B, T, V)",
        Box("cross_entropy"),
        "loss ()",
        Box("loss.backward()", "backpropagation"),
        "gradients",
        Box("clip_gradients", "norm at most max_norm", kind="optional"),
        "gradients",
        Box("AdamW.step()", "new parameters"),
    ]
    rate: list[Item] = [Box("learning rate", "warmup_cosine")]
    links = [
        Link("learning rate", "AdamW.step()", ("left", "right")),
        Link("batch", "cross_entropy", ("right", "right"), "targets (B, T)", bend=262),
        Link("AdamW.step()", "model", ("left", "left"), bend=18),
    ]
    return flow("One step of training", [Panel([Column(138, step, wide=200), Column(325, rate, wide=130, beside="AdamW.step()")], links, upward=False)])
