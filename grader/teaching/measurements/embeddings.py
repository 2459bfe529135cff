"""Lesson 2: the lengths of token and position vectors, and the dot products of position vectors at several distances."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements._running import make_table, run_measurement
from rich.table import Table

WIDTH, TOKENS = 512, 1_000
STARTS, DISTANCES = (100, 1500), (0, 1, 2, 10, 100)


def report(chapters: ChapterPackage, seed: int) -> Iterator[Table | str]:
    embeddings = chapters.module("ch02_embeddings")
    torch.manual_seed(seed)
    lengths = {}
    for name, scale in (("token vector, unscaled", False), (f"token vector times √{WIDTH}", True)):
        table = embeddings.TokenEmbedding(TOKENS, WIDTH, scale=scale).requires_grad_(False)
        table.weight.copy_(torch.randn(TOKENS, WIDTH) / math.sqrt(WIDTH))
        lengths[name] = table(torch.arange(TOKENS)[None]).norm(dim=-1).mean().item()
    rows = embeddings.sinusoidal_positions(max(STARTS) + max(DISTANCES) + 1, WIDTH)
    first, last = lengths.items()
    found = [first, ("position vector", rows.norm(dim=-1).mean().item()), last]
    yield make_table(f"mean length, d_model = {WIDTH}", ("", "length"), [[name, f"{length:.1f}"] for name, length in found])
    columns = ("distance k", *(f"rows {start} and {start} + k" for start in STARTS))
    products = [[str(k), *(f"{(rows[start] * rows[start + k]).sum().item():.1f}" for start in STARTS)] for k in DISTANCES]
    yield make_table(f"dot products of position vectors, d_model = {WIDTH}", columns, products)


def main(arguments: list[str] | None = None) -> int:
    return run_measurement(__doc__, "ch02", report, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
