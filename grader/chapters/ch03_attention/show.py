"""Attention: masks, heads, and which key each query reads."""

from __future__ import annotations

import torch
from grader.execution.proxy import Implementation
from grader.teaching.show.panel_makers import (
    POSITION_FEATURE,
    QUERY_KEY,
    WORDS,
    expect_pair,
    fix_weights,
    influence_grid,
    make_grid,
    random_tensor,
)
from grader.teaching.show.panels import Panel
from grader.verdict.comparing import shaped
from torch import Tensor

MASK_WORDS = ("hidden", "may attend")
CONTEXT = ("le", "chat", "court")
CAUSAL = torch.ones(7, 7, dtype=torch.bool).tril()
HEAD_FEATURE = ("", "feature of the head")
OUTPUT_AND_WEIGHTS = "this should return two results, the output and the weights"
T, D, HEADS = 3, 8, 2  # of the heads that are split and merged
HEAD_ROWS = [f"head {head}, position {position}" for head in range(HEADS) for position in range(T)]


# ---- masks


def causal_mask(side: Implementation) -> list[Panel]:
    masks = side.causal_mask(7), side.causal_mask(3, 7)
    return [
        make_grid("causal_mask(7)", masks[0], WORDS, WORDS, QUERY_KEY, words=MASK_WORDS),
        make_grid("causal_mask(3, 7)", masks[1], WORDS[4:], WORDS, QUERY_KEY, words=MASK_WORDS),
    ]


def padding_mask(side: Implementation) -> list[Panel]:
    ids = torch.tensor([[5, 3, 8, 6, 2], [4, 9, 0, 0, 0], [7, 1, 6, 0, 0]])
    mask = shaped(side.padding_mask(ids, 0), (3, 1, 1, 5), "the mask")[:, 0, 0]
    rows, axes = ["5 words", "2 words", "3 words"], ("sentence", "position")
    return [
        make_grid("the ids, 0 is padding", ids, rows, 5, axes, given=True),
        make_grid("padding_mask(ids, 0)", mask, rows, 5, axes, words=MASK_WORDS),
    ]


# ---- where each feature goes


def split_heads(side: Implementation) -> list[Panel]:
    """Each number is its position before the split."""
    x = _numbered_features()
    heads = shaped(side.split_heads(x, HEADS), (1, HEADS, T, D // HEADS), "the result")[0].flatten(0, 1)
    return [
        make_grid("x", x[0], T, D, POSITION_FEATURE, given=True),
        make_grid("split_heads(x, 2)", heads, HEAD_ROWS, D // HEADS, HEAD_FEATURE),
    ]


def merge_heads(side: Implementation) -> list[Panel]:
    heads = _numbered_features().view(1, T, HEADS, D // HEADS).transpose(1, 2).contiguous()
    merged = shaped(side.merge_heads(heads), (1, T, D), "the result")[0]
    return [
        make_grid("the heads", heads[0].flatten(0, 1), HEAD_ROWS, D // HEADS, HEAD_FEATURE, given=True),
        make_grid("merge_heads(heads)", merged, T, D, POSITION_FEATURE),
    ]


def _numbered_features() -> Tensor:
    return torch.arange(T * D, dtype=torch.float32).view(1, T, D)


# ---- which key each query reads


def softmax(side: Implementation) -> list[Panel]:
    scores = torch.tensor([0.3, 1.2, -0.4, 2.0, 0.3, 1.6, -1.0])
    scales = (0.5, 1, 2, 4)
    hidden = scores.index_fill(0, torch.tensor([3]), -torch.inf)
    x = torch.stack([*(scores * scale for scale in scales), hidden])
    rows = [*(f"scores x {scale}" for scale in scales), "saw hidden"]
    return [make_grid("softmax(scores)", side.softmax(x), rows, WORDS)]


def scaled_dot_product_attention(side: Implementation) -> list[Panel]:
    q, k, v = (1.6 * random_tensor(seed, 7, 8) for seed in (1, 2, 3))
    panels: list[Panel] = []
    for title, options in (("the weights", {}), ("the weights with a causal mask", {"mask": CAUSAL})):
        _, weights = expect_pair(side.scaled_dot_product_attention(q, k, v, **options), OUTPUT_AND_WEIGHTS)
        panels.append(make_grid(title, weights, WORDS, WORDS, QUERY_KEY, "the second result"))
    return panels


def self_attention_head(side: Implementation) -> list[Panel]:
    head = fix_weights(side.SelfAttentionHead(16, 8), 1, scale=1.6)
    return [influence_grid("one head, no mask", head, random_tensor(2, 7, 16))]


def multi_head_attention(side: Implementation) -> list[Panel]:
    attention = fix_weights(side.MultiHeadAttention(16, 2), 3, scale=1.8)
    answer = attention(random_tensor(5, 1, 7, 16), mask=CAUSAL, return_weights=True)
    weights = shaped(expect_pair(answer, OUTPUT_AND_WEIGHTS)[1], (1, 2, 7, 7), "the second result")

    def read(context: Tensor) -> object:
        return attention(random_tensor(6, 1, 3, 16).repeat(8, 1, 1), context=context)

    axes = ("output at", "context changed at")
    return [
        *(make_grid(f"head {head}", weights[0, head], WORDS, WORDS, QUERY_KEY) for head in range(2)),
        influence_grid("reading a context", read, random_tensor(5, 7, 16), CONTEXT, WORDS, axes),
    ]


def fused_self_attention(side: Implementation) -> list[Panel]:
    layer = fix_weights(side.FusedSelfAttention(16, 2, 12), 1, scale=1.6)
    return [influence_grid("the fused layer", layer, random_tensor(2, 7, 16))]
