"""The loop that writes text: from ids to one more id."""

from __future__ import annotations

from grader.teaching.drawing.flow.draw import flow
from grader.teaching.drawing.flow.items import Box, Column, Group, Item, Link, Panel

LOGITS = "(B, V)"


def draw() -> str:
    sample: list[Item] = [
        Box("apply_temperature"),
        LOGITS,
        Box("top_k_filter", kind="optional"),
        LOGITS,
        Box("top_p_filter", kind="optional"),
        LOGITS,
        Box("softmax"),
        LOGITS,
        Box("draw", "torch.multinomial"),
    ]
    loop: list[Item] = [
        Box("ids", "the text so far", kind="data"),
        "(B, T)",
        Box("model", kind="learned", chapter="7"),
        "(B, T, V)",
        Box("last position"),
        LOGITS,
        Box("min_p_filter", "before the call", kind="optional"),
        LOGITS,
        Group("sample_next_token", sample, left=12, right=78),
        "(B,)",
        Box("append", "(B, T + 1)"),
    ]
    return flow("Writing a text, token by token", [Panel([Column(178, loop, wide=190)], [Link("append", "ids", ("left", "left"), bend=20)], upward=False)])
