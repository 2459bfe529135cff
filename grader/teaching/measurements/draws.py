"""Lesson 9: how often each of five words is drawn in a thousand draws, at several temperatures."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import torch
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements._running import make_table, run_measurement
from rich.table import Table

WORDS = {"mat": 0.40, "rug": 0.30, "sofa": 0.15, "roof": 0.10, "moon": 0.05}
TEMPERATURES = (0, 0.5, 1, 2)
DRAWS = 1_000


def measure(sampling: ModuleType, seed: int = 0) -> dict[float, list[int]]:
    """Return the number of draws of each word, for each temperature; each temperature begins with the same seed."""
    logits = torch.tensor(list(WORDS.values())).log().expand(DRAWS, -1)
    found = {}
    for temperature in TEMPERATURES:
        drawn = sampling.sample_next_token(logits, temperature=temperature, generator=torch.Generator().manual_seed(seed))
        found[temperature] = drawn.bincount(minlength=len(WORDS)).tolist()
    return found


def report(chapters: ChapterPackage, seed: int) -> Iterator[Table | str]:
    rows = [[f"{temperature}", *map(str, counts)] for temperature, counts in measure(chapters.module("ch09_sampling"), seed).items()]
    yield make_table(f"{DRAWS:,} draws", ("temperature", *WORDS), rows)


def main(arguments: list[str] | None = None) -> int:
    return run_measurement(__doc__, "ch09", report, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
