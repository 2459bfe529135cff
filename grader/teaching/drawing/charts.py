"""Curves and tables as colours, each as a standalone SVG, and the elements of every picture: text, boxes, the card.

Numbers are rounded before anything is drawn, so the same values give the same bytes on every machine.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from grader.teaching.drawing.palette import (
    CARD,
    CURVES,
    EMPTY,
    FAINT,
    INK,
    LINE,
    Colour,
    dark_style,
    paint,
    shade,
    text_on,
)

if TYPE_CHECKING:
    from torch import Tensor

Points = Sequence[tuple[float, float]]

DASHES = ("", "7 4", "2 3", "9 3 2 3", "12 4", "4 2")
CHART_WIDTH, CHART_HEIGHT = 460, 250
MAX_NUMBERED_CELLS = 100  # in larger tables the cells have no numbers
MAX_LABELS = 12  # of more rows or columns, only some have a label


# ---- curves


def curves(
    lines: Mapping[str, Points],
    title: str,
    *,
    x_name: str = "",
    y_name: str = "",
    log: bool = False,
    looks: Sequence[tuple[int, int]] = (),
    dots: Collection[str] = (),
) -> str:
    """Draw one line for each name through its (x, y) points.

    `log` makes the y axis logarithmic.
    `looks` has a number of CURVES and one of DASHES for each line; without it, each line has its own colour and dashes.
    `dots` names those that are drawn as dots, not as a line.
    """
    scaled = math.log10 if log else float
    drawn = {name: [(float(x), scaled(y)) for x, y in points] for name, points in lines.items()}
    everything = [point for points in drawn.values() for point in points]
    xs, ys = ([point[axis] for point in everything] for axis in (0, 1))
    if not xs or not all(math.isfinite(value) for value in (*xs, *ys)):
        raise ValueError("a chart needs points, all of them finite")
    x_ticks, y_ticks = _ticks(xs), _decades(ys) if log else _ticks(ys)
    left, top = 84, 56

    def place(x: float, y: float) -> tuple[float, float]:
        across = CHART_WIDTH * (x - x_ticks[0]) / (x_ticks[-1] - x_ticks[0])
        down = CHART_HEIGHT * (y_ticks[-1] - y) / (y_ticks[-1] - y_ticks[0])
        return round(left + across, 1), round(top + down, 1)

    marks: list[str] = []
    for tick in y_ticks:
        _, y = place(x_ticks[0], tick)
        marks.append(_line(left, y, left + CHART_WIDTH, y))
        marks.append(write(left - 8, y + 4, f"{10.0**tick if log else tick:.4g}", anchor="end", colour=FAINT))
    for tick in x_ticks:
        x, _ = place(tick, y_ticks[0])
        marks.append(_line(x, top + CHART_HEIGHT, x, top + CHART_HEIGHT + 5))
        marks.append(write(x, top + CHART_HEIGHT + 20, f"{tick:.4g}", anchor="middle", colour=FAINT))
    looks = looks or [(number, number) for number in range(len(drawn))]
    draw = {name: _dots if name in dots else _curve for name in drawn}
    for look, (name, points) in zip(looks, drawn.items()):
        marks.append(draw[name]([place(x, y) for x, y in points], look))
    for number, (name, look) in enumerate(zip(drawn, looks)):
        x, y = left + CHART_WIDTH + 18, top + 10 + 24 * number
        sample = [(x + 14, y)] if name in dots else [(x, y), (x + 28, y)]
        marks += [draw[name](sample, look), write(x + 36, y + 4, name, colour=INK)]
    if x_name:
        marks.append(write(left + CHART_WIDTH / 2, top + CHART_HEIGHT + 42, x_name, anchor="middle", colour=FAINT))
    if y_name:
        marks.append(write(22, top + CHART_HEIGHT / 2, y_name, anchor="middle", colour=FAINT, turned=True))
    width = left + CHART_WIDTH + 18 + 40 + round(7.4 * max(len(name) for name in drawn)) + 16
    return card(marks, width, top + CHART_HEIGHT + (56 if x_name else 34), title)


def _ticks(values: Sequence[float]) -> list[float]:
    """Return four to eight round numbers from the smallest to the largest value."""
    low, high = min(values), max(values)
    spread = high - low or abs(high) or 1.0
    size = 10.0 ** math.floor(math.log10(spread))
    step = next(size * factor for factor in (0.1, 0.2, 0.25, 0.5, 1, 2) if spread / (size * factor) <= 7)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(step * i, 10) for i in range(first, max(last, first + 1) + 1)]


def _decades(values: Sequence[float]) -> list[float]:
    first, last = math.floor(min(values) + 1e-9), math.ceil(max(values) - 1e-9)
    step = max(1, (last - first) // 8)
    return [float(exponent) for exponent in range(first, max(last, first + 1) + step, step)]


def _curve(points: Points, look: tuple[int, int]) -> str:
    colour, dash = CURVES[look[0] % len(CURVES)], DASHES[look[1] % len(DASHES)]
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    way = " ".join(f"{x:g},{y:g}" for x, y in points)
    return f'<polyline points="{way}" {paint(None, colour)} stroke-width="2.2" stroke-linejoin="round"{dashed}/>'


def _dots(points: Points, look: tuple[int, int]) -> str:
    colour = paint(CURVES[look[0] % len(CURVES)])
    return "".join(f'<circle cx="{x:g}" cy="{y:g}" r="4.5" {colour}/>' for x, y in points)


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" {paint(None, LINE)}/>'


# ---- tables


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
    listed = values.tolist() if hasattr(values, "tolist") else values
    table = [[round(float(value), 3) for value in row] for row in listed]
    if not table or any(len(row) != len(columns) for row in table) or len(table) != len(rows):
        raise ValueError(
            f"a table of {len(table)} rows needs as many row labels ({len(rows)}) and each row {len(columns)} values"
        )
    finite = [value for row in table for value in row if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    numbered = len(table) * len(columns) <= MAX_NUMBERED_CELLS
    wide, tall = (58, 36) if numbered else (22, 14)
    left = 24 + (26 if row_name else 0) + round(7.2 * max(len(str(label)) for label in rows))
    top = 62 + (20 if column_name else 0)
    width, height = wide * len(columns), tall * len(table)
    decimals = 3 if any(value != round(value) for value in finite) else 0
    marks: list[str] = []
    for r, row in enumerate(table):
        for c, value in enumerate(row):
            x, y = left + c * wide, top + r * tall
            if not math.isfinite(value):
                marks.append(box(x, y, wide, tall, EMPTY))
            elif numbered:
                fill, text = shade(value, low, high), f"{value:.{decimals}f}" if abs(value) < 1000 else f"{value:.3g}"
                middle = write(x + wide / 2, y + tall / 2 + 4, text, anchor="middle", colour=text_on(fill))
                marks += [box(x, y, wide, tall, fill), middle]
            else:
                marks.append(_plain_cell(x, y, wide, tall, shade(value, low, high)))
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
    if numbered:
        return card(marks, left + width + 20, top + height + 18, title)
    marks += _scale(left, top + height + 16, low, high)
    return card(marks, left + max(width + 20, 320), top + height + 44, title)


def _labelled(count: int) -> range:
    """Return which labels to draw: all if they fit, otherwise every second, fourth, eighth ..."""
    step = 1
    while count / step > MAX_LABELS:
        step *= 2
    return range(0, count, step)


def _plain_cell(x: float, y: float, wide: float, tall: float, fill: Colour) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="{tall:g}" {paint(fill)}/>'


def _scale(x: float, y: float, low: float, high: float) -> Iterable[str]:
    """Draw a strip of the colours with numbers at its ends."""
    steps, start, end = 24, min(low, 0.0), max(high, 0.0)
    marks = [write(x, y + 11, f"{start:.3g}", colour=FAINT)]
    x += 12 + 7.2 * len(f"{start:.3g}")
    for i in range(steps):
        marks.append(_plain_cell(x + 6 * i, y, 6, 12, shade(start + (end - start) * i / (steps - 1), low, high)))
    return [*marks, write(x + 6 * steps + 10, y + 11, f"{end:.3g}", colour=FAINT)]


FONT = "ui-sans-serif, system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
NARROW, BROAD = " ()[]{}.,:;|!'ijltfrI-/", "mwMW%@…→×+"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


def box(x: float, y: float, wide: float, tall: float, fill: Colour | None) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="{tall:g}" rx="3" {paint(fill, LINE)}/>'


def write(
    x: float,
    y: float,
    text: str,
    anchor: str = "start",
    colour: Colour = INK,
    size: int = 13,
    *,
    bold: bool = False,
    turned: bool = False,
) -> str:
    place = f'x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" {paint(colour)}'
    more = ' font-weight="600"' * bold + f' transform="rotate(-90 {x:g} {y:g})"' * turned
    return f"<text {place}{more}>{escape(_legal(text), quote=False)}</text>"


def text_width(text: str, size: float, bold: bool = False) -> float:
    """Return about how wide a text is in a wide sans-serif font, so that it fits in narrower ones too."""
    share = sum(0.38 if c in NARROW else 0.97 if c in BROAD else 0.71 if c.isupper() else 0.62 for c in text)
    return share * size * (1.12 if bold else 1.0)


def _legal(text: str) -> str:
    """Replace characters that XML does not allow with U+FFFD."""
    return re.sub("[^\t\n -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)


def card(marks: Iterable[str], width: float, height: float, title: str) -> str:
    """Put the picture on a card, white on a light page and dark on a dark one, at least as wide as its title."""
    wide, tall = math.ceil(max(width, 40 + text_width(title, 15, bold=True))), math.ceil(height)
    inside = [
        f'<rect x="0.5" y="0.5" width="{wide - 1}" height="{tall - 1}" rx="8" {paint(CARD, LINE)}/>',
        write(20, 29, title, size=15, bold=True),
        *marks,
    ]
    size = f'viewBox="0 0 {wide} {tall}" width="{wide}" height="{tall}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} class="drawing" font-family="{FONT}" role="img">'
    named = f"<title>{escape(_legal(title), quote=False)}</title>"
    return "\n".join([head, named, dark_style(inside), *inside, "</svg>\n"])
