"""Caches, and query heads that share a key head."""

from __future__ import annotations

import torch
from grader.execution.proxy import Implementation, load
from grader.teaching.show.panel_makers import WORDS, fix_weights, influence_grid, make_grid, random_tensor
from grader.teaching.show.panels import Panel
from grader.verdict.comparing import shaped
from torch import Tensor

CHUNKS = (3, 1, 1, 2)  # positions that go into the cache at each call


def grouped_query_attention(side: Implementation) -> list[Panel]:
    """Raise the values of one key head at a time by 1: the query heads that read it rise too, as W_out is 1."""
    heads, groups, width = 6, 2, 4
    attention = fix_weights(side.GroupedQueryAttention(heads * width, heads, groups), 2)
    load(attention, {"W_out.weight": torch.eye(heads * width)})
    x = random_tensor(8, 1, 5, heads * width)

    def last_output(raised: int | None) -> Tensor:
        bias = torch.zeros(groups, width)
        if raised is not None:
            bias[raised] = 1.0
        load(attention, {"W_v.bias": bias.flatten()})
        return shaped(attention(x), (1, 5, heads * width), "the result")[0, -1].view(heads, width)

    before = last_output(None)
    reads = torch.stack([(last_output(group) - before).mean(dim=-1) for group in range(groups)], dim=1)
    rotated = fix_weights(side.GroupedQueryAttention(heads * width, heads, groups, positions="rope"), 2, scale=1.6)
    rows = [f"query head {head}" for head in range(heads)]
    return [
        make_grid("which query head reads which key head", reads, rows, groups, ("", "key head")),
        influence_grid('positions="rope"', rotated, random_tensor(8, 7, heads * width)),
    ]


def kv_cache(side: Implementation) -> list[Panel]:
    """Keys are numbered from 1, values from 11; a row has what append returns for each position, else 0."""
    cache, total = side.KVCache(), sum(CHUNKS)
    tables = {"keys": torch.zeros(len(CHUNKS), total), "values": torch.zeros(len(CHUNKS), total)}
    rows, start = [], 0
    for row, count in enumerate(CHUNKS):
        new = torch.arange(start + 1, start + count + 1, dtype=torch.float32).view(1, 1, count, 1).repeat(1, 2, 1, 4)
        start += count
        for name, cached in zip(tables, cache.append(new, new + 10)):
            here = shaped(cached, (1, 2, start, 4), f"what append gives as {name}, after {start} positions,")
            tables[name][row, :start] = here[0, 1, :, 2]
        rows.append(f"{count} more: length {cache.length}")
    return [make_grid(f"the {name}", table, rows, total, ("", "position")) for name, table in tables.items()]


def cached_self_attention(side: Implementation) -> list[Panel]:
    layer = fix_weights(side.CachedSelfAttention(16, 2, positions="rope"), 1, scale=1.6)
    x, cache = random_tensor(2, 1, 7, 16), side.KVCache()
    parts = [shaped(layer(part, cache), tuple(part.shape), "the result") for part in (x[:, :3], x[:, 3:5], x[:, 5:])]
    whole = shaped(layer(x), (1, 7, 16), "the result")
    outputs, axes = torch.cat(parts, dim=1)[0], ("word", "feature")
    return [
        make_grid("the outputs, word by word from the cache", outputs, WORDS, 16, axes),
        make_grid("how far they are from one pass without a cache", (outputs - whole[0]).abs(), WORDS, 16, axes),
    ]
