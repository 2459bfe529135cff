"""The cache: its contents after each call, and its memory."""

from __future__ import annotations

import torch
from grader.execution.proxy import Implementation
from grader.teaching.show.panel_makers import make_chart, make_grid, number_labels
from grader.teaching.show.panels import Panel
from grader.verdict.comparing import shaped

CHUNKS = (3, 1, 1, 2)


def kv_cache(side: Implementation) -> list[Panel]:
    """Keys are numbered from 1, values from 11. The table has what append returns for each position after each call, else 0."""
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
    return [make_grid(f"the {name}", table, rows, number_labels(total), column_name="position") for name, table in tables.items()]


def kv_cache_bytes(side: Implementation) -> list[Panel]:
    """32 layers, heads of 128 features, two bytes per number, as in a model of seven billion parameters."""
    lengths = [1024 * i for i in range(33)]
    lines = {f"{heads} kv heads": [side.kv_cache_bytes(32, heads, 128, length) / 2**30 for length in lengths] for heads in (32, 8, 1)}
    return [make_chart("one sequence's cache", lengths, lines, "tokens", "GiB")]
