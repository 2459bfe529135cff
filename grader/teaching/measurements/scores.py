"""Lesson 3: how the width of a head changes its scores and weights, with and without the division by the square root of d_head.

Queries and keys are independent standard normal numbers. Each query is compared with four keys of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import ModuleType

import torch
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements._running import make_table, run_measurement
from rich.table import Table

WIDTHS = (16, 64, 768)  # of one head
QUERIES, KEYS = 20_000, 4
WRONG_ROOT = (64, 768)  # heads of the first width, whose scores are divided by the root of the second


def draw_scores(width: int, seed: int) -> torch.Tensor:
    """Draw queries and keys, and return their dot products (QUERIES, KEYS)."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.empty(QUERIES, KEYS)
    for part in scores.split(2_000):  # in parts, for the memory
        q = torch.randn(len(part), 1, width, generator=generator)
        k = torch.randn(len(part), KEYS, width, generator=generator)
        part[:] = (q * k).sum(-1)
    return scores


def measure(attention: ModuleType, seed: int = 0) -> tuple[list[tuple[int, float, float, float]], tuple[float, float]]:
    """Return for each width the standard deviation of the scores and the mean largest weight, raw and divided.

    Last come the standard deviation and the mean largest weight after the division by the wrong root.
    """

    def largest(scores: torch.Tensor) -> float:
        return attention.softmax(scores, -1).amax(-1).mean().item()

    rows = []
    for width in WIDTHS:
        scores = draw_scores(width, seed)
        rows.append((width, scores.std().item(), largest(scores), largest(scores / math.sqrt(width))))
    wrong = draw_scores(WRONG_ROOT[0], seed) / math.sqrt(WRONG_ROOT[1])
    return rows, (wrong.std().item(), largest(wrong))


def report(chapters: ChapterPackage, seed: int) -> Iterator[Table | str]:
    rows, (deviation, largest) = measure(chapters.module("ch03_attention"), seed)
    columns = ("d_head", "standard deviation of the raw scores", "largest of four weights, raw", "after dividing by √d_head")
    yield make_table(f"{QUERIES:,} random queries", columns, [[str(width), *(f"{number:.2f}" for number in numbers)] for width, *numbers in rows])
    yield f"Heads of width {WRONG_ROOT[0]}, divided by √{WRONG_ROOT[1]}: standard deviation {deviation:.2f}, largest weight {largest:.2f} on average."


def main(arguments: list[str] | None = None) -> int:
    return run_measurement(__doc__, "ch03", report, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
