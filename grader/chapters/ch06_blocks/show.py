"""Blocks: which outputs depend on which inputs, and how vectors grow.

One input is changed at a time, and each output shows how far it moves. This needs no attention weights.
"""

from __future__ import annotations

import torch
from grader.execution.proxy import Implementation
from grader.teaching.show.panel_makers import WORDS, fix_weights, influence_grid, make_chart, random_tensor
from grader.teaching.show.panels import Panel
from grader.verdict.comparing import shaped
from torch import Tensor

D, BLOCKS = 16, 8
TARGET = ("<s>", "le", "chat", "court")


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
