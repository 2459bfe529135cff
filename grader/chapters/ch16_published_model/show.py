"""A published model: quantised weights, pieces of text, reordered rows, shared key heads."""

from __future__ import annotations

import torch
from grader.execution.proxy import Implementation, load
from grader.teaching.show.panel_makers import (
    OUTPUT_INPUT,
    WORDS,
    exchange_words,
    fix_weights,
    influence_grid,
    make_chart,
    make_grid,
    measure_change,
    random_tensor,
)
from grader.teaching.show.panels import Panel
from grader.verdict.comparing import Mismatch, shaped

HALF, MINUS_3 = [0, 56], [0, 194]  # float16 numbers: 0.5 and -3
NUMBERS = [*range(16), *reversed(range(16))]  # of the 32 weights: up and down again
TEXT = "The year 2024 ended"
MERGES = ["T h", "Th e", "y e", "a r", "ye ar", "Ġ year", "e n", "d e", "2 0", "en de", "ende d"]
CHARACTERS = sorted({*TEXT.replace(" ", "Ġ")})
HEADS, KEY_HEADS, WIDTH = 6, 2, 4


def dequantize_q4_1(side: Implementation) -> list[Panel]:
    low, high = NUMBERS[:16], NUMBERS[16:]
    packed = [a + 16 * b for a, b in zip(low, high)]
    weights = side.dequantize_q4_1(torch.tensor([[*HALF, *MINUS_3, *packed]], dtype=torch.uint8))
    weights = shaped(weights, (1, 32), "the result")[0]
    title, rows = "the bits of the 16 bytes, as numbers", ("low bits", "high bits")
    return [
        make_grid(title, torch.tensor([low, high]), rows, 16, ("", "byte"), given=True),
        make_chart("the 32 weights", range(32), {"0.5 * number - 3": weights}, "place in the block", "weight"),
    ]


def published_tokenizer(side: Implementation) -> list[Panel]:
    tokenizer = side.PublishedTokenizer([*CHARACTERS, *(merge.replace(" ", "") for merge in MERGES)], MERGES)
    ids = tokenizer.encode(TEXT)
    pieces = [tokenizer.decode([i]) for i in ids]
    if "".join(pieces) != TEXT:
        raise Mismatch(f"encode and decode should give {TEXT!r} back", pieces)
    table, start = torch.zeros(len(pieces), len(TEXT)), 0
    for row, piece in enumerate(pieces):
        table[row, start : start + len(piece)] = 1.0
        start += len(piece)
    words = ("not in it", "in the token")
    return [make_grid(f"the tokens of {TEXT!r}", table, list(map(repr, pieces)), list(TEXT), words=words)]


def interleave_rows(side: Implementation) -> list[Panel]:
    """The rows of an identity matrix show where each row comes from."""
    rows = side.interleave_rows(torch.eye(8), 2)
    labels = [f"head {head}, feature {i}" for head in range(2) for i in range(4)]
    axes, words = ("place", "stored row"), ("another row", "from here")
    return [make_grid("interleave_rows(identity, 2)", rows, labels, 8, axes, words=words)]


def llama_attention(side: Implementation) -> list[Panel]:
    """The values of one key head at a time are 1 everywhere, and W_out changes nothing: heads that read it give 1."""
    attention = fix_weights(side.LlamaAttention(HEADS * WIDTH, HEADS, KEY_HEADS), 2, scale=1.6)
    moved = influence_grid("which outputs depend on which words", attention, random_tensor(8, 7, HEADS * WIDTH))
    x = random_tensor(8, 1, 5, HEADS * WIDTH)
    x[..., 0] = 1.0
    reads = torch.zeros(HEADS, KEY_HEADS)
    for head in range(KEY_HEADS):
        values = torch.zeros(KEY_HEADS, WIDTH, HEADS * WIDTH)
        values[head, :, 0] = 1.0
        load(attention, {"W_v.weight": values.flatten(0, 1), "W_out.weight": torch.eye(HEADS * WIDTH)})
        output = shaped(attention(x), (1, 5, HEADS * WIDTH), "the result")
        reads[:, head] = output[0, -1].detach().view(HEADS, WIDTH).mean(dim=-1)
    rows = [f"query head {head}" for head in range(HEADS)]
    return [make_grid("which query head reads which key head", reads, rows, KEY_HEADS, ("", "key head")), moved]


def llama(side: Implementation) -> list[Panel]:
    model = fix_weights(side.Llama(12, 24, HEADS, KEY_HEADS, 2, 32), 1)
    logits = shaped(model(exchange_words([3, 7, 4, 1, 3, 5, 6], 12)), (8, 7, 12), "the result")
    return [make_grid("the logits", measure_change(logits, 7, 7), WORDS, WORDS, OUTPUT_INPUT)]
