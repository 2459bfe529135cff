"""Where each feature goes: heads split and merged, three matrices in one."""

from __future__ import annotations

import torch
from grader.execution.proxy import Implementation, load, parameters
from grader.teaching.show.panel_makers import fix_weights, make_grid, number_labels, random_tensor
from grader.teaching.show.panels import Grid, Panel
from grader.verdict.comparing import shaped

T, D, HEADS = 3, 8, 2
ROWS = [f"head {head}, position {position}" for head in range(HEADS) for position in range(T)]


def split_heads(side: Implementation) -> list[Panel]:
    """Each number is its position before the split."""
    x = _numbered_features()
    heads = shaped(side.split_heads(x, HEADS), (1, HEADS, T, D // HEADS), "the result")
    return [_input_grid(x), make_grid("split_heads(x, 2)", heads[0].flatten(0, 1), ROWS, number_labels(D // HEADS), column_name="feature of the head")]


def merge_heads(side: Implementation) -> list[Panel]:
    x = _numbered_features()
    heads = x.view(1, T, HEADS, D // HEADS).transpose(1, 2).contiguous()
    merged = shaped(side.merge_heads(heads), (1, T, D), "the result")
    given = make_grid("the heads", heads[0].flatten(0, 1), ROWS, number_labels(D // HEADS), column_name="feature of the head", given=True)
    return [given, make_grid("merge_heads(heads)", merged[0], number_labels(T), number_labels(D), row_name="position", column_name="feature")]


def fuse_qkv(side: Implementation) -> list[Panel]:
    """Numbers around 0 in the queries' matrix, around 3 in the keys', around 6 in the values', to show where they are in the fused matrix."""
    attention = fix_weights(side.MultiHeadAttention(D, HEADS))
    load(attention, {f"W_{name}.weight": random_tensor(number, D, D) / 3 + 3 * number for number, name in enumerate("qkv")})
    fused = parameters(side.fuse_qkv(attention, 16)).get("c_attn.weight")
    return [make_grid("c_attn.weight", fused, [name for name in "qkv" for _ in range(D)], number_labels(D), "c_attn.weight", row_name="row", column_name="column")]


def _numbered_features() -> torch.Tensor:
    return torch.arange(T * D, dtype=torch.float32).view(1, T, D)


def _input_grid(x: torch.Tensor) -> Grid:
    return make_grid("x", x[0], number_labels(T), number_labels(D), row_name="position", column_name="feature", given=True)
