"""Serving: beams, guesses, padded batches, blocks, codes of 8 bits, and a plan."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
from grader.execution.proxy import Implementation
from grader.teaching.show.panel_makers import WORDS, fix_weights, make_bars, make_grid, measure_change, number_labels, random_tensor
from grader.teaching.show.panels import Panel
from grader.verdict.comparing import holds, shaped
from torch import Tensor, nn

CHANCES = torch.tensor([[0.4, 0.3, 0.3], [0.9, 0.05, 0.05], [0.5, 0.4, 0.1]], dtype=torch.float64)  # of the next token, after each token
GUESSES = ("mat", "sofa", "floor", "chair", "roof")
TARGET = torch.tensor([0.40, 0.25, 0.20, 0.10, 0.05], dtype=torch.float64)
DRAFT = torch.tensor([0.20, 0.40, 0.10, 0.10, 0.20], dtype=torch.float64)
DRAWS = 1000
PADS = 2
REQUESTS = [(0, 4), (0, 1), (1, 6), (1, 2), (3, 3), (4, 2), (9, 1)]
SEATS = 3


class LastToken(nn.Module):
    """A model whose next token depends on the last one; its source is sent to the implementation's side."""

    def __init__(self, logits):
        super().__init__()
        self.logits = logits

    def forward(self, ids):
        return self.logits[ids]


def beam_search(side: Implementation) -> list[Panel]:
    """The probability of each text of two tokens that is found, else 0."""
    texts = list(itertools.product(range(3), repeat=2))
    panels: list[Panel] = []
    for n_beams in (1, 2, 4):
        model = side.bring(LastToken)(CHANCES.log())
        found = dict.fromkeys(texts, 0.0)
        for new, score in side.beam_search(model, torch.tensor([[2]]), 2, n_beams):
            holds(tuple(new) in found, f"a text of two tokens from 0 to 2 was expected; one is {new}")
            found[tuple(new)] = math.exp(score)
        panels.append(make_bars(f"{n_beams} beam{'s' * (n_beams > 1)}, after token 2", [f"{a} {b}" for a, b in texts], list(found.values()), "probability"))
    return panels


def residual_distribution(side: Implementation) -> list[Panel]:
    given = [make_bars(name, GUESSES, row, "probability", given=True) for name, row in (("the target", TARGET), ("the draft", DRAFT))]
    return [*given, make_bars("the residual", GUESSES, side.residual_distribution(TARGET, DRAFT), "probability")]


def _first_tokens(accept: Callable[..., Any], target: Tensor, draft: Tensor, n: int) -> list[int]:
    """The first token of each list, for drafts from the draft's row; its source is sent to the implementation's side."""
    generator = torch.Generator().manual_seed(0)
    drafted = torch.multinomial(draft, n, replacement=True, generator=generator).tolist()
    return [int(accept(target.repeat(2, 1), draft[None], [token], generator)[0]) for token in drafted]


def accept_drafts(side: Implementation) -> list[Panel]:
    """How often each token comes first. There is more than one correct way to draw, so the shares may differ a little."""
    tokens = side.bring(_first_tokens)(side.accept_drafts, TARGET, DRAFT, DRAWS)
    shares = torch.bincount(torch.tensor(tokens), minlength=len(GUESSES))[: len(GUESSES)] / DRAWS
    given = [make_bars(name, GUESSES, row, "probability", given=True) for name, row in (("the target", TARGET), ("the draft", DRAFT))]
    return [*given, make_bars(f"the first token of {DRAWS} lists", GUESSES, shares, "share", near=0.1)]


def padded_gpt(side: Implementation) -> list[Panel]:
    """One row, whose first two columns are padding: each column is changed, and each real token shows how far its logits move."""
    model = fix_weights(side.PaddedGPT(side.GPTConfig(vocab_size=12, max_len=16, d_model=16, n_heads=2, n_layers=2)), 1)
    ids = torch.tensor([7, 7, 3, 4, 1, 5, 6]).repeat(8, 1)
    for column in range(7):
        ids[column + 1, column] = (ids[0, column] + 4) % 12
    logits = shaped(model(ids, torch.full((8,), PADS)), (8, 7, 12), "the result")
    moved = measure_change(logits[:, PADS:], 7, 7 - PADS, "the result")
    columns = ["pad"] * PADS + list(WORDS[: 7 - PADS])
    return [make_grid("the logits with two pads", moved, columns[PADS:], columns, row_name="output at", column_name="changed at")]


def paged_kv_cache(side: Implementation) -> list[Panel]:
    """The keys are the numbers of the positions. Rows are the blocks of a table in their order; a place that is not filled is 0."""
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
        rows = [f"block {i}, {pool.holders(block)} holder{'s' * (pool.holders(block) > 1)}" for i, block in enumerate(blocks)]
        panels.append(make_grid(name, places.where(filled, torch.zeros(())), rows, number_labels(4), column_name="place"))
    return panels


def quantize_int8(side: Implementation) -> list[Panel]:
    """The rows have different sizes, and the last one has an outlier."""
    weight = random_tensor(4, 5, 8).double() * torch.tensor([[1.0], [0.2], [3.0], [0.05], [1.0]])
    weight[4, 3] = 12.0
    codes, scale = side.quantize_int8(weight)
    codes = shaped(codes, (5, 8), "the tensor of codes")
    error = codes.double() * shaped(scale, (5,), "the tensor of scales")[:, None] - weight
    rows, columns = [f"row {i}" for i in range(5)], number_labels(8)
    return [
        make_grid("the matrix", weight, rows, columns, given=True),
        make_grid("its codes", codes, rows, columns),
        make_grid("codes * scale - matrix", error, rows, columns),
    ]


def continuous_batches(side: Implementation) -> list[Panel]:
    """A row for each request, a column for each step, and 1 where the request writes."""
    plan = side.continuous_batches(REQUESTS, SEATS)
    table = torch.zeros(len(REQUESTS), 11)
    for step, writing in enumerate(plan[:11]):
        table[writing, step] = 1.0
    rows = [f"{i}: from step {arrival}, {tokens} token{'s' * (tokens > 1)}" for i, (arrival, tokens) in enumerate(REQUESTS)]
    return [make_grid(f"a plan with {SEATS} seats", table, rows, number_labels(11), column_name="step", words=("does not write", "writes"))]
