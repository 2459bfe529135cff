"""Models: which logits depend on which words."""

from __future__ import annotations

import torch
from grader.chapters.ch06_blocks.show import TARGET, D
from grader.execution.proxy import Handle, Implementation
from grader.teaching.show.panel_makers import (
    OUTPUT_INPUT,
    WORDS,
    exchange_words,
    first_result,
    fix_weights,
    make_grid,
    measure_change,
)
from grader.teaching.show.panels import Panel

IDS = [1, 2, 3, 4, 1, 5, 6]  # of WORDS


def gpt(side: Implementation) -> list[Panel]:
    model = small_gpt(side, 2, 1)
    moved = measure_change(first_result(model(exchange_words(IDS, 12))), 7, 7)
    return [make_grid("the logits of a GPT of two layers", moved, WORDS, WORDS, OUTPUT_INPUT)]


def seq2seq(side: Implementation) -> list[Panel]:
    config = side.Seq2SeqConfig(src_vocab_size=12, tgt_vocab_size=12, max_len=16, d_model=D, n_heads=2)
    model = fix_weights(side.Seq2Seq(config), 1)
    src, tgt = torch.tensor([IDS]), torch.tensor([IDS[:4]])
    by_source = measure_change(first_result(model(exchange_words(IDS, 12), tgt.repeat(8, 1))), 7, 4)
    by_target = measure_change(first_result(model(src.repeat(5, 1), exchange_words(IDS[:4], 12))), 4, 4)
    return [
        make_grid("by the words of the source", by_source, TARGET, WORDS, ("logits at", "source changed at")),
        make_grid("by the words of the target", by_target, TARGET, TARGET, ("logits at", "target changed at")),
    ]


def small_gpt(side: Implementation, n_layers: int, seed: int) -> Handle:
    config = side.GPTConfig(vocab_size=12, max_len=16, d_model=D, n_heads=2, n_layers=n_layers)
    return fix_weights(side.GPT(config), seed)
