"""The picture of lesson 15."""

from __future__ import annotations

from types import ModuleType

import torch
from grader.teaching.drawing.palette import BLUES, CURVES, FAINT
from grader.teaching.drawing.svg import box, card, write

TARGET, DRAFT = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64), torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)
N_BLOCKS, SIZE, POSITIONS = 8, 4, 10
LEFT, WIDE, TALL, TOP = 92, 420, 24, 56
KEPT, ADDED, PROPOSED = BLUES[16], CURVES[5], BLUES[4]


def draw(chapter: ModuleType) -> str:
    """Upper part: what each token gets from kept drafts and from the residual. Lower part: the block tables of a text and its fork."""
    marks = []
    kept = torch.minimum(TARGET, DRAFT)
    added = (1 - kept.sum()) * chapter.residual_distribution(TARGET, DRAFT)
    for token in range(3):
        y = TOP + token * (2 * TALL + 18)
        marks += [write(LEFT - 12, y + TALL + 4, f"token {token}", anchor="end", bold=True)]
        marks += [box(LEFT, y, WIDE * float(DRAFT[token]), TALL, PROPOSED)]
        marks += [write(LEFT + WIDE * float(DRAFT[token]) + 8, y + 17, f"{float(DRAFT[token]):.1f} drafted", colour=FAINT)]
        marks += [box(LEFT, y + TALL, WIDE * float(kept[token]), TALL, KEPT)]
        if added[token] > 0:
            marks += [box(LEFT + WIDE * float(kept[token]), y + TALL, WIDE * float(added[token]), TALL, ADDED)]
        total = float(kept[token] + added[token])
        marks += [write(LEFT + WIDE * total + 8, y + TALL + 17, f"{total:.1f} written")]
    below = TOP + 3 * (2 * TALL + 18) + 14
    keys = ((LEFT, PROPOSED, "drafted"), (LEFT + 110, KEPT, "drafted and kept"), (LEFT + 270, ADDED, "from the residual"))
    for x, fill, meaning in keys:
        marks += [box(x, below, 16, 16, fill), write(x + 24, below + 13, meaning)]
    return card(marks + _tables(chapter, below + 52), LEFT + WIDE + 40, below + 214, "A guess, kept or replaced; a text and its fork in one pool")


def _tables(chapter: ModuleType, top: int) -> list[str]:
    """The pool's blocks as columns; a row for each text, with the positions that it has in each block."""
    pool = chapter.BlockPool(N_BLOCKS, SIZE, 1, 1)
    text = chapter.PagedKVCache(pool)
    text.append(torch.zeros(1, POSITIONS, 1), torch.zeros(1, POSITIONS, 1))
    fork = text.fork()
    fork.append(torch.zeros(1, 1, 1), torch.zeros(1, 1, 1))
    cell = WIDE / N_BLOCKS
    marks = [write(LEFT + cell * (block + 0.5), top + 10, f"{block}", anchor="middle", colour=FAINT) for block in range(N_BLOCKS)]
    marks += [write(LEFT - 12, top + 10, "block", anchor="end", colour=FAINT)]
    for row, (name, cache) in enumerate((("text", text), ("fork", fork))):
        y = top + 22 + row * (TALL + 14)
        marks += [write(LEFT - 12, y + 17, name, anchor="end", bold=True)]
        for block in range(N_BLOCKS):
            marks += [box(LEFT + cell * block, y, cell, TALL, None)]
            if block in cache.blocks:
                filled = min(SIZE, cache.length - SIZE * cache.blocks.index(block))
                fill = KEPT if pool.holders(block) > 1 else ADDED
                marks += [box(LEFT + cell * block + place * cell / SIZE, y, cell / SIZE, TALL, fill) for place in range(filled)]
    end = top + 22 + 2 * (TALL + 14) + 10
    for x, fill, meaning in ((LEFT, KEPT, "shared"), (LEFT + 110, ADDED, "its own")):
        marks += [box(x, end, 16, 16, fill), write(x + 24, end + 13, meaning)]
    return marks
