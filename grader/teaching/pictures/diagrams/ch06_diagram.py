"""Pre-norm and post-norm blocks side by side, and the decoder block with cross-attention."""

from __future__ import annotations

from grader.teaching.drawing.flow.draw import flow
from grader.teaching.drawing.flow.items import Box, Column, Item, Link, Panel, Residual

VECTORS = "(B, T, D)"


def draw() -> str:
    def attention(name: str = "attn") -> Box:
        return Box(name, kind="learned", chapter="3" if "_" in name else "4")

    def norm(name: str) -> Box:
        return Box(name, kind="learned", chapter="5")

    feed_forward = Box("ffn", kind="learned", chapter="5")
    begin, end = Box("x", kind="text", key="begin"), Box("output", kind="text")
    pre: list[Item] = [begin, VECTORS, Residual([norm("ln1"), VECTORS, attention(), VECTORS]), VECTORS]
    pre += [Residual([norm("ln2"), VECTORS, feed_forward, VECTORS]), VECTORS, end]
    post: list[Item] = [begin, VECTORS, Residual([attention(), VECTORS]), VECTORS, norm("ln1"), VECTORS]
    post += [Residual([feed_forward, VECTORS]), VECTORS, norm("ln2"), VECTORS, end]
    cross = Box("cross_attn", "k, v: memory", kind="learned", chapter="3")
    decoder: list[Item] = [begin, VECTORS, Residual([attention("self_attn"), VECTORS]), VECTORS, norm("ln1"), VECTORS]
    decoder += [Residual([cross, VECTORS]), VECTORS, norm("ln2"), VECTORS]
    decoder += [Residual([feed_forward, VECTORS]), VECTORS, norm("ln3"), VECTORS, end]
    memory: list[Item] = [Box("memory", "of the encoder", kind="data")]
    blocks = Panel([Column(105, pre, wide=110, heading="PreNormBlock"), Column(300, post, wide=110, heading="PostNormBlock")])
    link = Link("memory", "cross_attn", ("top", "right"), "(B, S, D)", place=-18)
    with_memory = Panel([Column(130, decoder, wide=140, heading="DecoderBlock"), Column(310, memory, wide=136)], [link])
    return flow("Blocks around the residual stream", [blocks, with_memory])
