"""Serving: beams, guesses, padded batches, blocks, and a plan."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
from grader.counts import format_count
from grader.execution.proxy import Implementation
from grader.teaching.show.panel_makers import (
    OUTPUT_INPUT,
    WORDS,
    exchange_words,
    fix_weights,
    make_bars,
    make_grid,
    measure_change,
)
from grader.teaching.show.panels import Panel
from grader.verdict.comparing import holds, shaped
from torch import Tensor, nn

AFTER_TOKEN = torch.tensor([[0.4, 0.3, 0.3], [0.9, 0.05, 0.05], [0.5, 0.4, 0.1]], dtype=torch.float64)
GUESSES = ("mat", "sofa", "floor", "chair", "roof")
TARGET = torch.tensor([0.40, 0.25, 0.20, 0.10, 0.05], dtype=torch.float64)
DRAFT = torch.tensor([0.20, 0.40, 0.10, 0.10, 0.20], dtype=torch.float64)
DRAWS = 1000
PADS = 2
REQUESTS = [(0, 4), (0, 1), (1, 6), (1, 2), (3, 3), (4, 2), (9, 1)]  # arrival, tokens
SEATS = 3


class LastToken(nn.Module):
    """A model whose next token depends on the last one; its source is sent to the implementation's side."""

    def __init__(self, logits):
        super().__init__()
        self.logits = logits

    def forward(self, ids):
        return self.logits[ids]


def beam_search(side: Implementation) -> list[Panel]:
    texts = list(itertools.product(range(3), repeat=2))
    panels: list[Panel] = []
    for n_beams in (1, 2, 4):
        model = side.bring(LastToken)(AFTER_TOKEN.log())
        found = dict.fromkeys(texts, 0.0)
        for new, score in side.beam_search(model, torch.tensor([[2]]), 2, n_beams):
            holds(tuple(new) in found, f"a text of two tokens from 0 to 2 was expected; one is {new}")
            found[tuple(new)] = math.exp(score)
        title, labels = f"{format_count(n_beams, 'beam')}, after token 2", [f"{a} {b}" for a, b in texts]
        panels.append(make_bars(title, labels, list(found.values()), "probability"))
    return panels


def accept_drafts(side: Implementation) -> list[Panel]:
    """How often each token comes first. There are several correct ways to draw, so the shares may differ a little."""
    tokens = side.bring(first_tokens)(side.accept_drafts, TARGET, DRAFT, DRAWS)
    shares = torch.bincount(torch.tensor(tokens), minlength=len(GUESSES))[: len(GUESSES)] / DRAWS
    return [
        make_bars("the target", GUESSES, TARGET, "probability", given=True),
        make_bars("the draft", GUESSES, DRAFT, "probability", given=True),
        make_bars(f"the first token of {DRAWS} lists", GUESSES, shares, "share", near=0.1),
    ]


def first_tokens(accept: Callable[..., Any], target: Tensor, draft: Tensor, n: int) -> list[int]:
    """The first token of each list; this source is sent to the implementation's side."""
    generator = torch.Generator().manual_seed(0)
    drafted = torch.multinomial(draft, n, replacement=True, generator=generator).tolist()
    return [int(accept(target.repeat(2, 1), draft[None], [token], generator)[0]) for token in drafted]


def padded_gpt(side: Implementation) -> list[Panel]:
    config = side.GPTConfig(vocab_size=12, max_len=16, d_model=16, n_heads=2, n_layers=2)
    model = fix_weights(side.PaddedGPT(config), 1)
    logits = shaped(model(exchange_words([7, 7, 3, 4, 1, 5, 6], 12), torch.full((8,), PADS)), (8, 7, 12), "the result")
    moved = measure_change(logits[:, PADS:], 7, 7 - PADS)
    columns = ["pad"] * PADS + list(WORDS[: 7 - PADS])
    return [make_grid("the logits with two pads", moved, columns[PADS:], columns, OUTPUT_INPUT)]


def paged_kv_cache(side: Implementation) -> list[Panel]:
    """The keys are the numbers of the positions; rows are the blocks of a table, and an empty place is 0."""
    pool = side.BlockPool(8, 4, 1, 1)
    text = side.PagedKVCache(pool)
    keys = torch.arange(1.0, 11.0).view(1, 10, 1)
    text.append(keys, keys)
    fork = text.fork()
    fork.append(torch.full((1, 1, 1), 20.0), torch.full((1, 1, 1), 20.0))
    panels: list[Panel] = []
    for name, cache in (("the text, ten positions", text), ("its fork, one position more", fork)):
        blocks, length = cache.blocks, cache.length
        places = torch.stack([pool.k[block, 0, :, 0] for block in blocks])
        filled = torch.arange(places.numel()).view_as(places) < length
        rows, holders = [f"block {i}" for i in range(len(blocks))], [pool.holders(block) for block in blocks]
        panels.append(make_grid(name, places.where(filled, torch.zeros(())), rows, 4, ("", "place")))
        panels.append(make_bars(f"who holds the blocks of {name}", rows, holders, "holders"))
    return panels


def continuous_batches(side: Implementation) -> list[Panel]:
    table = torch.zeros(len(REQUESTS), 11)
    for step, writing in enumerate(side.continuous_batches(REQUESTS, SEATS)[:11]):
        table[writing, step] = 1.0
    rows = [f"{i}: from step {start}, {format_count(n, 'token')}" for i, (start, n) in enumerate(REQUESTS)]
    words = ("does not write", "writes")
    return [make_grid(f"a plan with {SEATS} seats", table, rows, 11, ("", "step"), words=words)]
