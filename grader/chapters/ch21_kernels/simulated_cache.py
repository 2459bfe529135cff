"""A small cache in front of the memory, and the programs of a matrix product that share it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator

Place = Callable[[int, int, int, int], tuple[int, int]]  # grouped_place


def count_misses(reads: Iterable[Hashable], size: int) -> int:
    """Count the reads that a cache of `size` blocks does not have. It forgets the block that was used longest ago."""
    kept: OrderedDict[Hashable, None] = OrderedDict()
    misses = 0
    for block in reads:
        if block in kept:
            kept.move_to_end(block)
            continue
        misses += 1
        kept[block] = None
        if len(kept) > size:
            kept.popitem(last=False)
    return misses


def tile_reads(place: Place, n_rows: int, n_columns: int, steps: int, group: int, together: int) -> Iterator[Hashable]:
    """Give the blocks that the programs of a matrix product read, in their order.

    `together` programs run at the same time, each with one tile, and make their steps along K side by side. At step k
    a program reads block k of its rows of a, and block k of its columns of b.
    """
    programs = [place(program, n_rows, n_columns, group) for program in range(n_rows * n_columns)]
    for first in range(0, len(programs), together):
        for k in range(steps):
            for row, column in programs[first : first + together]:
                yield "a", row, k
                yield "b", k, column
