"""The two models: a GPT, and a Seq2Seq with an encoder and a decoder."""

from __future__ import annotations

from grader.teaching.drawing.flow.draw import flow
from grader.teaching.drawing.flow.items import Box, Column, Group, Item, Link, Panel


def draw() -> str:
    gpt: list[Item] = [
        Box("ids", kind="text"),
        "(B, T)",
        Box("token_emb", kind="learned", chapter="2"),
        "(B, T, D)",
        Box("pos_emb", "not with RoPE, ALiBi", kind="learned", chapter="2"),
        "(B, T, D)",
        Group("× n_layers", [Box("PreNormBlock", kind="learned", chapter="6")]),
        "(B, T, D)",
        Box("ln_f", kind="learned", chapter="5"),
        "(B, T, D)",
        Box("lm_head", kind="learned"),
        "(B, T, V)",
        Box("logits", kind="text"),
    ]
    encoder: list[Item] = [
        Box("src", kind="text"),
        "(B, S)",
        Box("src_emb", kind="learned", chapter="2"),
        "(B, S, D)",
        Box("positions", kind="fixed", chapter="2"),
        "(B, S, D)",
        Box("EncoderBlocks", kind="learned", chapter="6"),
        "(B, S, D)",
        Box("memory", "(B, S, D)", kind="data"),
    ]
    decoder: list[Item] = [
        Box("tgt", kind="text"),
        "(B, T)",
        Box("tgt_emb", kind="learned", chapter="2"),
        "(B, T, D)",
        Box("positions", kind="fixed", chapter="2"),
        "(B, T, D)",
        Box("DecoderBlocks", kind="learned", chapter="6"),
        "(B, T, D)",
        Box("lm_head", kind="learned"),
        "(B, T, V)",
        Box("logits", kind="text"),
    ]
    models = [
        Panel([Column(200, gpt, wide=200, heading="GPT")]),
        Panel(
            [Column(100, encoder, wide=162, heading="Seq2Seq: encode"), Column(300, decoder, wide=162, heading="decode")],
            [Link("memory", "DecoderBlocks", ("right", "left"), bend=200)],
        ),
    ]
    return flow("Two models made of the same parts", models)
