"""Where each tool looks into a GPT."""

from __future__ import annotations

from grader.teaching.drawing.flow.draw import flow
from grader.teaching.drawing.flow.items import Box, Column, Item, Link, Panel

VECTORS = "(B, T, D)"


def draw() -> str:
    model: list[Item] = [
        Box("embeddings", kind="learned", chapter="2"),
        VECTORS,
        Box("state 0", kind="data"),
        VECTORS,
        Box("block 0", kind="learned", chapter="6"),
        VECTORS,
        Box("state 1", kind="data"),
        VECTORS,
        Box("block 1", kind="learned", chapter="6"),
        VECTORS,
        Box("state 2", kind="data"),
        VECTORS,
        Box("head", "ln_f, lm_head", kind="learned", chapter="7"),
        "(B, T, V)",
        Box("logits", kind="data"),
    ]
    tools = [
        ("attention_patterns", "(n_layers, B, H, T, T)", "block 0"),
        ("residual_stream", "all states (B, T, D)", "state 1"),
        ("patch_residual", "replaces a state", "state 2"),
        ("logit_lens", "(n_layers + 1, B, T, V)", "head"),
    ]
    columns = [Column(90, model, wide=138), *(Column(300, [Box(name, note)], wide=186, beside=where) for name, note, where in tools)]
    links = [
        Link("block 0", "attention_patterns", ("right", "left"), faint=True),
        Link("state 1", "residual_stream", ("right", "left"), faint=True),
        Link("patch_residual", "state 2", ("left", "right")),
        Link("head", "logit_lens", ("right", "left"), faint=True),
    ]
    return flow("Where each tool looks", [Panel(columns, links)])
