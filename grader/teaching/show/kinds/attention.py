"""Attention maps: the weight of each key for each query."""

from __future__ import annotations

import torch
from grader.execution.proxy import Implementation, load
from grader.teaching.show.panel_makers import WORDS, fix_weights, make_grid, measure_influence, number_labels, random_tensor
from grader.teaching.show.panels import Panel
from grader.verdict.comparing import Mismatch, shaped
from torch import Tensor

SCALES = (0.5, 1, 2, 4)
OTHERS = ("le", "chat", "court")
MAP = dict(row_name="query", column_name="key")


def softmax(side: Implementation) -> list[Panel]:
    """The same scores on four scales, and once with a word hidden."""
    scores = torch.tensor([0.3, 1.2, -0.4, 2.0, 0.3, 1.6, -1.0])
    hidden = scores.index_fill(0, torch.tensor([3]), -torch.inf)
    x = torch.stack([*(scores * scale for scale in SCALES), hidden])
    rows = [*(f"scores x {scale}" for scale in SCALES), "saw hidden"]
    return [make_grid("softmax(scores)", side.softmax(x), rows, WORDS)]


def scaled_dot_product_attention(side: Implementation) -> list[Panel]:
    """The weights without a mask, then with a causal mask."""
    q, k, v = (1.6 * random_tensor(seed, 7, 8) for seed in (1, 2, 3))
    mask = torch.ones(7, 7, dtype=torch.bool).tril()
    panels: list[Panel] = []
    for title, options in (("the weights", {}), ("the weights with a causal mask", {"mask": mask})):
        answer = side.scaled_dot_product_attention(q, k, v, **options)
        panels.append(make_grid(title, _second_result(answer), WORDS, WORDS, "the second result", **MAP))
    return panels


def multi_head_attention(side: Implementation) -> list[Panel]:
    """Two heads of one layer, causal; then the same layer with a context: which outputs depend on which words of it."""
    attention = fix_weights(side.MultiHeadAttention(16, 2), 3, scale=1.8)
    _, weights = _expect_pair(attention(random_tensor(5, 1, 7, 16), mask=torch.ones(7, 7, dtype=torch.bool).tril(), return_weights=True))
    shaped(weights, (1, 2, 7, 7), "the second result")
    influence = measure_influence(lambda rows: attention(random_tensor(6, 1, 3, 16).repeat(8, 1, 1), context=rows), random_tensor(5, 7, 16), OTHERS)
    across = make_grid("reading a context", influence, OTHERS, WORDS, row_name="output at", column_name="context changed at")
    return [*(make_grid(f"head {head}", weights[0, head], WORDS, WORDS, **MAP) for head in range(2)), across]


def causal_self_attention(side: Implementation) -> list[Panel]:
    """The same vector at every position: only the position can make a difference."""
    x = random_tensor(4, 1, 1, 16).expand(1, 8, 16).contiguous()
    panels: list[Panel] = []
    for scheme in ("none", "rope", "alibi"):
        attention = fix_weights(side.CausalSelfAttention(16, 2, positions=scheme), 6, scale=1.6)
        _, weights = _expect_pair(attention(x, return_weights=True))
        shaped(weights, (1, 2, 8, 8), "the second result")
        panels.append(make_grid(f'positions="{scheme}", head 0', weights[0, 0], number_labels(8), number_labels(8), **MAP))
    return panels


def grouped_query_attention(side: Implementation) -> list[Panel]:
    """Raise the values of one key head at a time by 1: the query heads that read it rise too. (W_out is the identity.)"""
    heads, groups, wide = 6, 2, 4
    attention = fix_weights(side.GroupedQueryAttention(heads * wide, heads, groups), 2)
    load(attention, {"W_out.weight": torch.eye(heads * wide)})
    x = random_tensor(8, 1, 5, heads * wide)

    def last(raised: int | None) -> Tensor:
        bias = torch.zeros(groups * wide)
        if raised is not None:
            bias[raised * wide : (raised + 1) * wide] = 1.0
        load(attention, {"W_v.bias": bias})
        return shaped(attention(x), (1, 5, heads * wide), "the result")[0, -1].view(heads, wide)

    before = last(None)
    reads = torch.stack([(last(group) - before).mean(dim=-1) for group in range(groups)], dim=1)
    turned = fix_weights(side.GroupedQueryAttention(heads * wide, heads, groups, positions="rope"), 2, scale=1.6)
    return [
        make_grid("which query head reads which key head", reads, [f"query head {h}" for h in range(heads)], range(groups), column_name="key head"),
        make_grid('positions="rope"', measure_influence(turned, random_tensor(8, 7, heads * wide)), WORDS, WORDS, row_name="output at", column_name="changed at"),
    ]


def _expect_pair(answer: object) -> tuple:
    """Return (output, weights); raise Mismatch for anything else."""
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise Mismatch("this should return two results, the output and the weights", answer)
    return answer


def _second_result(answer: object) -> object:
    return _expect_pair(answer)[1]
