"""Lab order: what the order of the tiles of a matrix product costs, with a small cache."""

from __future__ import annotations

from grader.chapters.ch21_kernels.simulated_cache import count_misses, tile_reads
from grader.execution.chapter_package import ChapterPackage
from grader.files import UserProblem
from grader.teaching.measurements import Report, result_table

SIDE, STEPS = 32, 8  # tiles in a row and in a column, and blocks along K
GROUPS = (1, 2, 4, 8, 16, 32)
CACHES = (16, 64, 128, 256, 512)  # blocks


def report_kernels_order(chapters: ChapterPackage, seed: int, *, together: int = 64) -> Report:
    """Lesson 21: misses of a small cache for each `group` of grouped_place.

    A product has 32 x 32 tiles, and each takes 8 steps along K. `together` programs run at the same time and step side
    by side. The cache forgets the block that was used longest ago. A miss is a block that comes from memory; there are
    512 different blocks.
    """
    if not 1 <= together <= SIDE**2:
        raise UserProblem(f"--together must be from 1 to {SIDE**2}, not {together}")
    place = chapters.module("ch21_kernels").grouped_place
    rows = []
    for group in GROUPS:
        reads = list(tile_reads(place, SIDE, SIDE, STEPS, group, together))
        first = {read for read in reads[: 2 * together]}  # one step of the programs that run together
        rows.append([group, len(first), *(f"{count_misses(reads, size):,}" for size in CACHES)])
    columns = ("group", "blocks in a step", *(f"cache of {size}" for size in CACHES))
    yield result_table(f"Misses of {2 * SIDE**2 * STEPS:,} reads", columns, rows)
