"""Small standalone pictures in SVG, without a dependency: a table of numbers as colours, a text cut into tokens.

Numbers are rounded before anything is drawn, so the same values give the same bytes on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from grader.teaching.drawing.palette import BLUES, CARD, EMPTY, FAINT, INK, Colour, paint, shade, text_on
from grader.teaching.drawing.svg import MONO, box, card, write

if TYPE_CHECKING:
    from torch import Tensor

NUMBERED = 100  # tables with at most this many cells show the numbers
LABELLED = 12  # with more rows or columns, only some have a label


def heatmap(
    values: Tensor | Sequence[Sequence[float]],
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    *,
    row_name: str = "",
    column_name: str = "",
) -> str:
    """Draw a table as coloured cells, with numbers if there are few cells; NaN leaves its cell empty."""
    table = [[round(float(value), 3) for value in row] for row in (values.tolist() if hasattr(values, "tolist") else values)]
    if not table or any(len(row) != len(columns) for row in table) or len(table) != len(rows):
        raise ValueError(f"a table of {len(table)} rows needs as many row labels ({len(rows)}) and each row {len(columns)} values")
    seen = [value for row in table for value in row if math.isfinite(value)]
    low, high = min(seen, default=0.0), max(seen, default=0.0)
    numbered = len(table) * len(columns) <= NUMBERED
    wide, tall = (58, 36) if numbered else (22, 14)
    left = 24 + (26 if row_name else 0) + round(7.2 * max(len(str(label)) for label in rows))
    top = 62 + (20 if column_name else 0)
    width, height = wide * len(columns), tall * len(table)
    decimals = 3 if any(value != round(value) for value in seen) else 0
    marks: list[str] = []
    for r, row in enumerate(table):
        for c, value in enumerate(row):
            text = (f"{value:.{decimals}f}" if abs(value) < 1000 else f"{value:.3g}") if numbered else ""
            marks += _cell(left + c * wide, top + r * tall, wide, tall, shade(value, low, high) if math.isfinite(value) else None, text)
    if not numbered:
        marks.append(box(left, top, width, height, None))
    for r in _labelled(len(rows)):
        marks.append(write(left - 8, top + r * tall + tall / 2 + 4, str(rows[r]), anchor="end"))
    for c in _labelled(len(columns)):
        marks.append(write(left + c * wide + wide / 2, top - 8, str(columns[c]), anchor="middle"))
    if row_name:
        marks.append(write(20, top + height / 2, row_name, anchor="middle", colour=FAINT, turned=True))
    if column_name:
        marks.append(write(left + width / 2, top - 28, column_name, anchor="middle", colour=FAINT))
    if not numbered:
        marks += scale(left, top + height + 16, low, high)
    wide_enough = max(left + width + 20, left + (0 if numbered else 320))
    return card(marks, wide_enough, top + height + (44 if not numbered else 18), title)


def token_rows(rows: Sequence[tuple[str, Sequence[str]]], title: str) -> str:
    """Draw a text cut into tokens, once per row, as boxes as wide as their characters; tokens that the row above lacks are coloured."""
    step, tall, gap = 22, 30, 14
    left = 32 + round(7.4 * max(len(label) for label, _ in rows))
    right = 0
    marks: list[str] = []
    before: set[tuple[int, int]] = set()
    for number, (label, tokens) in enumerate(rows):
        y, at = 56 + number * (tall + gap), 0
        marks.append(write(left - 14, y + tall / 2 + 4, label, anchor="end"))
        spans: set[tuple[int, int]] = set()
        for token in tokens:
            span = (at, at + len(token))
            spans.add(span)
            fresh = number > 0 and span not in before
            marks.append(box(left + at * step + 1, y, len(token) * step - 2, tall, BLUES[8] if fresh else CARD))
            for offset, letter in enumerate(token):
                shown, ink = "\u2423" if letter == " " else letter, text_on(BLUES[8]) if fresh else INK
                marks.append(write(left + (at + offset + 0.5) * step, y + tall / 2 + 5, shown, anchor="middle", colour=ink, size=15, font=MONO))
            at += len(token)
        before = spans
        note = f"{len(tokens)} tokens"
        marks.append(write(left + at * step + 12, y + tall / 2 + 4, note, colour=FAINT))
        right = max(right, left + at * step + 24 + round(7.2 * len(note)))
    return card(marks, right, 56 + len(rows) * (tall + gap) + 4, title)


def _cell(x: float, y: float, wide: float, tall: float, fill: Colour | None, text: str) -> Iterable[str]:
    if fill is None:
        return [box(x, y, wide, tall, EMPTY)]
    if not text:
        return [f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="{tall:g}" {paint(fill)}/>']
    return [box(x, y, wide, tall, fill), write(x + wide / 2, y + tall / 2 + 4, text, anchor="middle", colour=text_on(fill))]


def _labelled(count: int) -> range:
    """Return which labels to draw: all if they fit, otherwise every second, fourth, eighth ..."""
    step = 1
    while count / step > LABELLED:
        step *= 2
    return range(0, count, step)


def scale(x: float, y: float, low: float, high: float) -> Iterable[str]:
    """Draw a strip of the colours with numbers at its ends."""
    steps, start = 24, min(low, 0.0)
    marks = [write(x, y + 11, f"{start:.3g}", colour=FAINT)]
    x += 12 + 7.2 * len(f"{start:.3g}")
    for i in range(steps):
        value = start + (max(high, 0.0) - start) * i / (steps - 1)
        marks.append(f'<rect x="{x + 6 * i:g}" y="{y:g}" width="6" height="12" {paint(shade(value, low, high))}/>')
    return [*marks, write(x + 6 * steps + 10, y + 11, f"{max(high, 0.0):.3g}", colour=FAINT)]
