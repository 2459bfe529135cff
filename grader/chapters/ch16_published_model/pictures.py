"""The pictures of the lesson that show numbers of the reference."""

from __future__ import annotations

from types import ModuleType

import torch
from grader.teaching.drawing import CURVES, FAINT, box, card, paint, text_on, write

HEADS, WIDTH = 2, 4
CELL, TALL = 54, 30


def ch16_interleave(chapter: ModuleType) -> str:
    """Draw the rows of two heads before and after interleave_rows; rows that turn together have one colour."""
    rows = HEADS * WIDTH
    order = [int(row) for row in chapter.interleave_rows(torch.arange(float(rows)), HEADS)]
    colours = [CURVES[row // WIDTH * (WIDTH // 2) + row % (WIDTH // 2)] for row in range(rows)]
    left, above, below, gap = 170, 78, 188, 26
    marks = []

    def at(place: int) -> float:
        return left + place * CELL + place // WIDTH * gap

    for head in range(HEADS):
        middle = at(head * WIDTH) + WIDTH * CELL / 2
        marks.append(write(middle, above - 12, f"head {head}", "middle", FAINT))
    for place, row in enumerate(order):
        start, end = (at(row) + CELL / 2, above + TALL + 2), (at(place) + CELL / 2, below - 2)
        ends = f'x1="{start[0]:g}" y1="{start[1]:g}" x2="{end[0]:g}" y2="{end[1]:g}"'
        marks.append(f'<line {ends} {paint(None, colours[row])} stroke-width="2.2"/>')
    for y, listed, name in ((above, list(range(rows)), "pairs are halves"), (below, order, "pairs are neighbours")):
        marks.append(write(20, y + 20, name))
        for place, row in enumerate(listed):
            marks.append(box(at(place), y, CELL - 4, TALL, colours[row]))
            marks.append(write(at(place) + CELL / 2 - 2, y + 20, str(row), "middle", text_on(colours[row])))
    marks.append(write(20, below + TALL + 28, "rows of one colour turn together in RoPE", colour=FAINT))
    title = "Rows of a query weight, before and after interleave_rows"
    return card(marks, at(rows - 1) + CELL + 20, below + TALL + 46, title)
