"""Blocks and models: which outputs depend on which inputs, what each layer holds, and what its heads do.

One input is changed at a time, and each output shows how far it moves. This needs no attention weights.
"""

from __future__ import annotations

import torch
from grader.execution.proxy import Handle, Implementation, load
from grader.teaching.circuits import induction_circuit
from grader.teaching.show.panel_makers import (
    OUTPUT_INPUT,
    QUERY_KEY,
    WORDS,
    exchange_words,
    first_result,
    fix_weights,
    influence_grid,
    make_chart,
    make_grid,
    measure_change,
    random_tensor,
)
from grader.teaching.show.panels import Panel
from grader.verdict.comparing import shaped
from torch import Tensor

D, BLOCKS = 16, 8
IDS = [1, 2, 3, 4, 1, 5, 6]  # of WORDS
TARGET = ("<s>", "le", "chat", "court")
LETTERS = "abcdefgh"
REPEATED = "dafcdafc"  # a word of four letters, twice


def pre_norm_block(side: Implementation) -> list[Panel]:
    return _stack_blocks(side.PreNormBlock)


def post_norm_block(side: Implementation) -> list[Panel]:
    return _stack_blocks(side.PostNormBlock)


def _stack_blocks(make) -> list[Panel]:
    """Stack eight blocks with different weights; also show which outputs of the first block depend on which inputs."""
    x = random_tensor(1, 1, 7, D)
    sizes = [_root_mean_square(x)]
    for number in range(BLOCKS):
        x = shaped(fix_weights(make(D, 2), number)(x), (1, 7, D), "the result")
        sizes.append(_root_mean_square(x))
    title, lines = "the size of a vector, block after block", {"size": sizes}
    block = fix_weights(make(D, 2), 0, scale=1.5)
    return [
        make_chart(title, range(BLOCKS + 1), lines, "blocks passed", "root mean square"),
        influence_grid("which outputs depend on which inputs", block, random_tensor(2, 7, D)),
    ]


def _root_mean_square(x: Tensor) -> float:
    return float(x.detach().square().mean().sqrt())


def encoder_block(side: Implementation) -> list[Panel]:
    """The last two words are padding: no other output may depend on them."""
    block = fix_weights(side.EncoderBlock(D, 2), 1, scale=1.3)
    mask = (torch.arange(7) < 5).expand(8, 1, 1, 7).contiguous()
    return [influence_grid("the last two are masked", lambda x: block(x, mask), random_tensor(2, 7, D))]


def decoder_block(side: Implementation) -> list[Panel]:
    """Each output may depend on its own words so far, and on all unmasked words of the memory."""
    block = fix_weights(side.DecoderBlock(D, 2), 1, scale=1.3)
    x, memory = random_tensor(2, 4, D), random_tensor(3, 7, D)
    causal = torch.ones(4, 4, dtype=torch.bool).tril()
    mask = (torch.arange(7) < 5).view(1, 1, 1, 7)

    def change_words(rows: Tensor) -> object:
        return block(rows, memory.repeat(5, 1, 1), causal, mask)

    def change_memory(rows: Tensor) -> object:
        return block(x.repeat(8, 1, 1), rows, causal, mask)

    axes = ("output at", "memory changed at")
    return [
        influence_grid("its own words", change_words, x, TARGET, TARGET),
        influence_grid("the memory, its last two masked", change_memory, memory, TARGET, WORDS, axes),
    ]


def gpt(side: Implementation) -> list[Panel]:
    model = _small_gpt(side, 2, 1)
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


def _small_gpt(side: Implementation, n_layers: int, seed: int) -> Handle:
    config = side.GPTConfig(vocab_size=12, max_len=16, d_model=D, n_heads=2, n_layers=n_layers)
    return fix_weights(side.GPT(config), seed)


# ---- inside a model


def residual_stream(side: Implementation) -> list[Panel]:
    stream = side.residual_stream(_small_gpt(side, 4, 2), torch.tensor([IDS]))
    if not isinstance(stream, list | tuple):
        shaped(stream, (5, 1, 7, D), "the list of streams")
    norms = torch.stack([shaped(state, (1, 7, D), "each state").detach()[0].norm(dim=-1) for state in stream])
    return [make_grid("the norm of each vector", norms, ["embedded", *(f"block {i}" for i in range(4))], WORDS)]


def attention_patterns(side: Implementation) -> list[Panel]:
    patterns = side.attention_patterns(_induction_model(side), _letter_ids(REPEATED))
    shaped(patterns, (2, 1, 2, 8, 8), "the result")
    panels: list[Panel] = []
    for layer, head in ((0, 0), (1, 1)):
        title, weights = f"layer {layer}, head {head}", patterns[layer, 0, head]
        panels.append(make_grid(title, weights, REPEATED, REPEATED, QUERY_KEY))
    return panels


def logit_lens(side: Implementation) -> list[Panel]:
    ids = _letter_ids(REPEATED)
    logits = shaped(side.logit_lens(_induction_model(side), ids), (3, 1, 8, len(LETTERS)), "the result")
    probabilities = torch.softmax(logits.detach(), dim=-1)[:, 0, :-1]
    of_next = probabilities.gather(-1, ids[0, 1:].expand(3, 7)[..., None])[..., 0]
    columns = [f"{a}>{b}" for a, b in zip(REPEATED, REPEATED[1:])]
    return [make_grid("the probability of the next letter", of_next, ["embedded", "block 0", "block 1"], columns)]


def find_induction_heads(side: Implementation) -> list[Panel]:
    scores, rows = side.find_induction_heads(_induction_model(side), 5, 4), ["layer 0", "layer 1"]
    return [make_grid("the induction score of each head", scores, rows, 2, ("", "head"), near=0.1)]


def patch_residual(side: Implementation) -> list[Panel]:
    """`abcdabc` continues with d. How much of the logit of d does one state restore in a run on `abceabc`?"""
    model, clean, corrupted = _induction_model(side), _letter_ids("abcdabc"), _letter_ids("abceabc")

    def logit_of_d(logits: object) -> float:
        return float(shaped(logits, (1, 7, len(LETTERS)), "the result")[0, -1, LETTERS.index("d")])

    good, bad = (logit_of_d(model(ids)[0]) for ids in (clean, corrupted))
    table = torch.zeros(2, 7)
    for layer in range(2):
        for position in range(7):
            patched = logit_of_d(side.patch_residual(model, clean, corrupted, layer, position))
            table[layer, position] = (patched - bad) / (good - bad)
    title, rows = "how much of the answer one state restores", ["block 0", "block 1"]
    return [make_grid(title, table, rows, "abceabc", ("", "patched at"))]


def _induction_model(side: Implementation) -> Handle:
    """Return a GPT with weights set by hand, so that the function of its two layers is known."""
    config, weights = induction_circuit(len(LETTERS), 12)
    model = side.GPT(side.GPTConfig(**config))
    load(model, weights)
    model.eval()
    return model


def _letter_ids(text: str) -> Tensor:
    return torch.tensor([[LETTERS.index(letter) for letter in text]])
