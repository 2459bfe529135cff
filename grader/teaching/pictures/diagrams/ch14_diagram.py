"""Attention strip by strip, forward and backward."""

from __future__ import annotations

from grader.teaching.drawing.flow.draw import flow
from grader.teaching.drawing.flow.items import Box, Column, Item, Link, Panel

SCORES, OUTPUT = "(..., Tq, block)", "(..., Tq, d_v)"


def draw() -> str:
    forward: list[Item] = [
        Box("the next strip of k and v", "at most block keys", kind="data", wide=270),
        "(..., block, d)",
        Box("scores with all queries q", "masked if causal", wide=270, chapter="3"),
        SCORES,
        Box("attention_with_lse", "output and lse of the strip", wide=270),
        OUTPUT,
        Box("merge_attention", "two pairs become one", wide=270),
        OUTPUT,
        Box("output and lse so far", "after the last strip: the result", kind="data", wide=270),
    ]
    backward: list[Item] = [
        Box("the next strip of k and v", "at most block keys", kind="data", wide=270),
        "(..., block, d)",
        Box("scores again", "masked if causal", wide=270),
        SCORES,
        Box("weights = e^(score - lse)", "no sum over keys is needed", wide=270),
        SCORES,
        Box("grad_scores", "grad_out · output is the average", wide=270),
        SCORES,
        Box("grad_q, grad_k, grad_v", "grad_q collects from all strips", kind="data", wide=270),
    ]
    merged = [Link("output and lse so far", "merge_attention", ("left", "left"), bend=22)]
    panels = [
        Panel([Column(200, forward, wide=270, heading="Forward, for each strip")], merged, upward=False),
        Panel([Column(200, backward, wide=270, heading="Backward, for each strip")], upward=False),
    ]
    return flow("Attention strip by strip", panels)
