"""Norms through depth: the size of the vectors after each block."""

from __future__ import annotations

import torch
from grader.execution.proxy import Implementation
from grader.teaching.show.panel_makers import WORDS, fix_weights, make_chart, make_grid, measure_influence, random_tensor
from grader.teaching.show.panels import Panel
from grader.verdict.comparing import shaped
from torch import Tensor

D, BLOCKS = 16, 8


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
    influence = measure_influence(fix_weights(make(D, 2), 0, scale=1.5), random_tensor(2, 7, D))
    return [
        make_chart("the size of a vector, block after block", list(range(BLOCKS + 1)), {"size": sizes}, "blocks passed", "root mean square"),
        make_grid("which outputs depend on which inputs", influence, WORDS, WORDS, row_name="output at", column_name="changed at"),
    ]


def residual_stream(side: Implementation) -> list[Panel]:
    """The norm of each word's vector in the stream, after the embeddings and after each block."""
    model = fix_weights(side.GPT(side.GPTConfig(vocab_size=12, max_len=16, d_model=D, n_heads=2, n_layers=4)), 2)
    stream = side.residual_stream(model, torch.tensor([[1, 2, 3, 4, 1, 5, 6]]))
    if not isinstance(stream, list | tuple):
        shaped(stream, (5, 1, 7, D), "the list of streams")
    lengths = torch.stack([shaped(state, (1, 7, D), "each state").detach()[0].norm(dim=-1) for state in stream])
    return [make_grid("the norm of each vector", lengths, ["embedded", *(f"block {i}" for i in range(4))], WORDS)]


def _root_mean_square(x: Tensor) -> float:
    return float(x.detach().square().mean().sqrt())
