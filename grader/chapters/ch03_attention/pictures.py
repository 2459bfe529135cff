"""The pictures of the lesson that show numbers of the reference."""

from __future__ import annotations

from types import ModuleType

import torch
from grader.teaching.drawing import (
    CURVES,
    DASHES,
    FAINT,
    FIXED,
    INK,
    LEARNED,
    LINE,
    Colour,
    box,
    card,
    heatmap,
    paint,
    write,
)


def ch03_attention(chapter: ModuleType) -> str:
    words = ["fish", "for", "the", "crane"]
    x = torch.tensor([[3.0, 0, 0], [0, 0, 2], [0, 0, 1], [1, 1, 0]])
    w_q, w_k, w_v = torch.tensor([[[1.0, 1, 0], [0, 0, 1]], [[1, 1, 0], [1, 1, 1]], [[1, 0, 0], [0, 1, 0]]])
    _, weights = chapter.scaled_dot_product_attention(x @ w_q.T, x @ w_k.T, x @ w_v.T, mask=chapter.causal_mask(4))
    past = weights.masked_fill(torch.ones_like(weights, dtype=torch.bool).triu(1), torch.nan)
    title = "Which word attends to which, and how much"
    return heatmap(past, words, words, title, row_name="query", column_name="key")


def ch03_cranes(chapter: ModuleType) -> str:
    """Draw the vectors of the example by hand: crane is one vector, and becomes another beside each neighbour."""
    crane, fish, steel = torch.tensor([[1.0, 1], [3, 0], [0, 3]])
    left, top, unit, largest = 76, 60, 88, 3.2
    marks: list[str] = []

    def place(x: float, y: float) -> tuple[float, float]:
        return round(left + unit * x, 1), round(top + unit * (largest - y), 1)

    for tick in range(4):
        (x, _), (_, y) = place(tick, 0), place(0, tick)
        marks.append(_line(x, top, x, place(0, 0)[1], LINE, 1))
        marks.append(_line(left, y, place(largest, 0)[0], y, LINE, 1))
        marks.append(write(x, place(0, 0)[1] + 20, str(tick), "middle", FAINT))
        marks.append(write(left - 10, y + 4, str(tick), "end", FAINT))
    x, y = place(largest / 2, 0)
    marks.append(write(x, y + 42, "living", "middle", FAINT))
    marks.append(write(26, top + unit * largest / 2, "machine", "middle", FAINT, turned=True))
    for name, neighbour, colour in (("fish", fish, CURVES[0]), ("steel", steel, CURVES[1])):
        keys = torch.stack([crane, neighbour])
        new = chapter.scaled_dot_product_attention(crane[None], keys, keys)[0][0].tolist()
        marks.append(_dot(*place(*neighbour.tolist()), colour))
        marks.append(_line(*place(*crane.tolist()), *place(*neighbour.tolist()), colour, 1.5, DASHES[2]))
        marks.append(_line(*place(*crane.tolist()), *place(*new), colour, 3))
        marks.append(_dot(*place(*new), colour))
        x, y = place(*neighbour.tolist())
        marks.append(write(x + 10, y - 8, name))
        x, y = place(*new)
        marks.append(write(x + 12, y - 12, f"crane beside {name}: ({new[0]:.2f}, {new[1]:.2f})"))
    marks.append(_dot(*place(*crane.tolist()), INK))
    x, y = place(*crane.tolist())
    marks.append(write(x + 12, y - 6, "crane: (1, 1)", bold=True))
    return card(marks, 590, top + unit * largest + 58, "One word, two neighbours, two vectors")


def ch03_heads(chapter: ModuleType) -> str:
    """Draw two positions of six features, split into two heads in two steps, and by one wrong reshape."""
    x = torch.arange(12).view(1, 2, 6)
    wide, tall, top = 34, 30, 84
    marks = [write(84 + 3 * wide, top - 14, "x: 2 positions, 6 features", "middle", FAINT)]
    for position, row in enumerate(x[0].tolist()):
        marks.append(write(74, top + position * tall + 20, f"position {position}", "end", FAINT, 12))
        marks += _cells(84, top + position * tall, row, wide, tall)
    parts = {"split, then swap": chapter.split_heads(x, 2), "one reshape: wrong": x.reshape(1, 2, 2, 3)}
    for number, (name, heads) in enumerate(parts.items()):
        y = top + 112
        for head, rows in enumerate(heads[0].tolist()):
            left = 28 + number * 284 + head * (3 * wide + 22)
            marks.append(write(left + 1.5 * wide, y - 10, f"head {head}", "middle", FAINT, 12))
            for place, row in enumerate(rows):
                marks += _cells(left, y + place * tall, row, wide, tall)
        middle = 28 + number * 284 + 3 * wide + 11
        marks.append(write(middle, y + 2 * tall + 24, name, "middle", bold=True))
    return card(
        marks, 566, top + 112 + 2 * tall + 40, "Two heads of two positions: colours are features 0 to 2 and 3 to 5"
    )


def _cells(x: float, y: float, row: list[int], wide: float, tall: float) -> list[str]:
    marks = []
    for place, value in enumerate(row):
        fill = (LEARNED, FIXED)[value % 6 // 3][0]
        marks.append(box(x + place * wide, y, wide, tall, fill))
        marks.append(write(x + (place + 0.5) * wide, y + 20, str(value), "middle"))
    return marks


def _line(x1: float, y1: float, x2: float, y2: float, colour: Colour, thick: float, dash: str = "") -> str:
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    ends = f'x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"'
    return f'<line {ends} {paint(None, colour)} stroke-width="{thick:g}"{dashed}/>'


def _dot(x: float, y: float, colour: Colour) -> str:
    return f'<circle cx="{x:g}" cy="{y:g}" r="5.5" {paint(colour)}/>'
