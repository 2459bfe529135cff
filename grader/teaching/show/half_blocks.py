"""Colour in a terminal: a character cell shows two pixels, the upper and the lower half of ▀, each in its own colour."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from functools import cache
from typing import Literal

from grader.teaching.drawing.palette import CURVES, value_to_hex
from grader.teaching.show.panels import Chart, Grid
from grader.teaching.show.scales import Span
from rich.text import Span as Styled
from rich.text import Text

NO_NUMBER = "#cc79a7"  # pink, which is in no scale: NaN and infinity
PAPER, RULE = "#ffffff", "#d1d9e0"
UP, DOWN = "#3a4f9f", "#b35806"  # of bars: indigo above zero, orange below

Pixels = list[list[str]]  # rows of colours
STEPS = (0, 95, 135, 175, 215, 255)  # of red, green and blue among the 256 colours
GOOD_256 = (16, 17, 18, 25, 36, 61, 68, 74, 75, 104, 130, 146, 153, 166, 172, 175, 178, 189, 215, 223, 231, 253)


def find_colour_system() -> Literal["truecolor", "256"] | None:
    """Return the terminal's colour system by rich's name; None if it cannot or should not show colours."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM", "").lower() in ("dumb", "unknown"):
        return None
    try:
        "▀█▌".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return None
    return "truecolor" if os.environ.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit") else "256"


def convert_to_256(line: Text) -> Text:
    """Return the line in the 256 colours that nearly every terminal supports."""
    spans = [Styled(span.start, span.end, " ".join(nearest_256(word) if word.startswith("#") else word for word in str(span.style).split())) for span in line.spans]
    return Text(line.plain, line.style, spans=spans, no_wrap=True)


@cache
def nearest_256(code: str) -> str:
    """Return the nearest of the colours that suit the kit's scales; among all 256 colours a dark blue would become green."""
    wanted = [int(code[i : i + 2], 16) for i in (1, 3, 5)]
    return f"color({min(GOOD_256, key=lambda number: sum((a - b) ** 2 for a, b in zip(wanted, _rgb_of_256(number))))})"


def _rgb_of_256(number: int) -> tuple[int, int, int]:
    if number >= 232:
        return (8 + 10 * (number - 232),) * 3
    place = number - 16
    return STEPS[place // 36], STEPS[place // 6 % 6], STEPS[place % 6]


def render_pixels(pixels: Pixels) -> list[Text]:
    """Render two rows of pixels as one line of text; neighbours with the same two colours share a span."""
    if len(pixels) % 2:
        pixels = [*pixels, [""] * len(pixels[-1])]
    lines = []
    for upper, lower in zip(pixels[::2], pixels[1::2]):
        line, run, style = Text(no_wrap=True), 0, ""
        for above, below in [*zip(upper, lower), ("end", "end")]:
            wanted = f"{above} on {below}" if below else above
            if wanted != style and run:
                line.append("▀" * run, style)
                run = 0
            run, style = run + 1, wanted
        lines.append(line)
    return lines


def cells(grid: Grid, span: Span, wide: int, tall: int) -> Pixels:
    """Draw each number as a box of `wide` x `tall` pixels."""
    shades = [[shade(value, span) for value in row] for row in grid.values]
    return [[one for one in row for _ in range(wide)] for row in shades for _ in range(tall)]


def shade(value: float, span: Span) -> str:
    return value_to_hex(value, span.low, span.high) if math.isfinite(value) else NO_NUMBER


def scale(span: Span, wide: int = 16) -> list[tuple[str, str]]:
    """Return the colours from one end of a scale to the other, as (character, style)."""
    low, high = span.ends
    return [("▀", f"{(c := value_to_hex(low + (high - low) * i / (wide - 1), span.low, span.high))} on {c}") for i in range(wide)]


def plot(chart: Chart, x: Span, y: Span, wide: int, tall: int) -> Pixels:
    """Draw the lines, with a rule where y is 0; the first line is on top."""
    pixels = [[PAPER] * wide for _ in range(tall)]
    if y.low < 0 < y.high:
        zero = _place(0.0, y.high, y.low, tall)
        pixels[zero] = [RULE] * wide
    for number, points in reversed(list(enumerate(chart.lines.values()))):
        for column, row in rasterise(points, x, y, wide, tall):
            pixels[row][column] = CURVES[number % len(CURVES)].light
    return pixels


def rasterise(points: Sequence[tuple[float, float]], x: Span, y: Span, wide: int, tall: int) -> set[tuple[int, int]]:
    """Return the pixels that a line through these points touches; NaN and infinity break the line."""
    touched: set[tuple[int, int]] = set()
    before = None
    for point in points:
        if not all(map(math.isfinite, point)):
            before = None
            continue
        here = _place(point[0], x.low, x.high, wide), _place(point[1], y.high, y.low, tall)
        touched.update(_between(before or here, here))
        before = here
    return touched


def _place(value: float, first: float, last: float, count: int) -> int:
    share = (value - first) / (last - first) if last != first else 0.5
    return min(max(round(share * (count - 1)), 0), count - 1)


def _between(start: tuple[int, int], end: tuple[int, int]) -> list[tuple[int, int]]:
    steps = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
    return [(round(start[0] + (end[0] - start[0]) * i / steps), round(start[1] + (end[1] - start[1]) * i / steps)) for i in range(steps + 1)]

