"""The picture of lesson 10."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
from grader.teaching.drawing.palette import BLUES, FAINT
from grader.teaching.drawing.svg import box, card, write

WORDS = "the crane sees the fish and dives deep".split()
PROMPT, NEW = 5, 3
WIDE, TALL, LEFT, TOP = 62, 30, 104, 82
COMPUTED, KEPT = BLUES[16], BLUES[4]


def draw(chapter: ModuleType) -> str:
    """Which positions each pass projects, and which it finds in the cache: three new tokens after a prompt of five, without a cache and with one."""
    lengths = range(PROMPT, PROMPT + NEW)
    marks = [write(LEFT + WIDE * (i + 0.5), TOP - 14, word, anchor="middle") for i, word in enumerate(WORDS[: PROMPT + NEW - 1])]
    right = LEFT + WIDE * (PROMPT + NEW - 1)
    marks += [write(right + 14, TOP - 14, "chosen", colour=FAINT), write(right + 82, TOP - 14, "projected", colour=FAINT)]
    marks += _passes("no cache", TOP, [(0, length) for length in lengths])
    below = TOP + NEW * TALL + 44
    marks += _passes("cached", below, _cached(chapter.KVCache(), [PROMPT] + [1] * (NEW - 1)))
    end = below + NEW * TALL + 46
    for x, fill, meaning in ((LEFT, COMPUTED, "projected in this pass"), (LEFT + 190, KEPT, "read from the cache")):
        marks += [box(x, end, 16, 16, fill), write(x + 24, end + 13, meaning)]
    return card(marks, right + 170, end + 36, "Three new tokens: what is projected, and what is cached")


def _cached(cache: Any, chunks: list[int]) -> list[tuple[int, int]]:
    """For each chunk, how many positions were in the cache before it and after it."""
    lengths = []
    for length in chunks:
        before = cache.length
        cache.append(torch.zeros(1, 1, length, 1), torch.zeros(1, 1, length, 1))
        lengths.append((before, cache.length))
    return lengths


def _passes(name: str, top: int, passes: list[tuple[int, int]]) -> list[str]:
    """One row for each pass: cells for cached and projected positions, the chosen token, and three projections for each new position."""
    marks = [write(LEFT - 12, top + TALL / 2 + 4, name, anchor="end", bold=True)]
    right = LEFT + WIDE * (PROMPT + NEW - 1)
    for row, (before, after) in enumerate(passes):
        y = top + row * TALL
        marks += [box(LEFT + WIDE * i, y, WIDE, TALL, KEPT if i < before else COMPUTED) for i in range(after)]
        marks.append(write(right + 14, y + TALL / 2 + 4, WORDS[PROMPT + row]))
        marks.append(write(right + 112, y + TALL / 2 + 4, f"{3 * (after - before)}", anchor="middle"))
    marks.append(write(right + 112, top + len(passes) * TALL + 18, f"{sum(3 * (after - before) for before, after in passes)}", anchor="middle", bold=True))
    return marks
