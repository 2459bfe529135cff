"""Curves over two axes as a standalone SVG, without a dependency.

Numbers are rounded before anything is drawn, so the same values give the same bytes on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from grader.teaching.drawing.palette import CURVES, FAINT, INK, LINE, paint
from grader.teaching.drawing.svg import card, write

Points = Sequence[tuple[float, float]]

DASHES = ("", "7 4", "2 3", "9 3 2 3", "12 4", "4 2")
WIDE, TALL = 460, 250


def curves(
    lines: Mapping[str, Points],
    title: str,
    *,
    x_name: str = "",
    y_name: str = "",
    log: bool = False,
    dots: bool = False,
    looks: Sequence[tuple[int, int]] = (),
) -> str:
    """Draw one line for each name through its (x, y) points. `log` makes the y axis logarithmic, `dots` marks each point.

    `looks` has a number of CURVES and one of DASHES for each line; without it, each line has its own colour and dashes.
    """
    drawn = {name: [(float(x), math.log10(y) if log else float(y)) for x, y in points] for name, points in lines.items()}
    every = [point for points in drawn.values() for point in points]
    if not every or not all(math.isfinite(x) and math.isfinite(y) for x, y in every):
        raise ValueError("a chart needs points, all of them finite")
    x_ticks, y_ticks = _ticks([x for x, _ in every]), _decades([y for _, y in every]) if log else _ticks([y for _, y in every])
    left, top = 84, 56
    spot = _Frame(left, top, (x_ticks[0], x_ticks[-1]), (y_ticks[0], y_ticks[-1]))
    marks: list[str] = []
    for tick in y_ticks:
        marks.append(_line(left, spot.y(tick), left + WIDE, spot.y(tick)))
        marks.append(write(left - 8, spot.y(tick) + 4, f"{10.0**tick if log else tick:.4g}", anchor="end", colour=FAINT))
    for tick in x_ticks:
        marks.append(_line(spot.x(tick), top + TALL, spot.x(tick), top + TALL + 5))
        marks.append(write(spot.x(tick), top + TALL + 20, f"{tick:.4g}", anchor="middle", colour=FAINT))
    looks = looks or [(number, number) for number in range(len(drawn))]
    for look, points in zip(looks, drawn.values()):
        marks += _curve([(spot.x(x), spot.y(y)) for x, y in points], look, dots)
    marks += _names(list(drawn), looks, left + WIDE + 18, top)
    if x_name:
        marks.append(write(left + WIDE / 2, top + TALL + 42, x_name, anchor="middle", colour=FAINT))
    if y_name:
        marks.append(write(22, top + TALL / 2, y_name, anchor="middle", colour=FAINT, turned=True))
    width = left + WIDE + 18 + 40 + round(7.4 * max(len(name) for name in drawn)) + 16
    return card(marks, width, top + TALL + (56 if x_name else 34), title)


class _Frame:
    """The conversion of values to places on the page."""

    def __init__(self, left: float, top: float, xs: tuple[float, float], ys: tuple[float, float]) -> None:
        self.left, self.top, self.xs, self.ys = left, top, xs, ys

    def x(self, value: float) -> float:
        low, high = self.xs
        return round(self.left + WIDE * (value - low) / (high - low), 1)

    def y(self, value: float) -> float:
        low, high = self.ys
        return round(self.top + TALL * (high - value) / (high - low), 1)


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


def _curve(points: Points, look: tuple[int, int], dots: bool) -> Iterable[str]:
    colour, dash = CURVES[look[0] % len(CURVES)], DASHES[look[1] % len(DASHES)]
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    way = " ".join(f"{x:g},{y:g}" for x, y in points)
    yield f'<polyline points="{way}" {paint(None, colour)} stroke-width="2.2" stroke-linejoin="round"{dashed}/>'
    if dots:
        for x, y in points:
            yield f'<circle cx="{x:g}" cy="{y:g}" r="3.5" {paint(colour)}/>'


def _names(names: Sequence[str], looks: Sequence[tuple[int, int]], x: float, top: float) -> Iterable[str]:
    for number, (name, look) in enumerate(zip(names, looks)):
        y = top + 10 + 24 * number
        yield from _curve([(x, y), (x + 28, y)], look, dots=False)
        yield write(x + 36, y + 4, name, colour=INK)


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" {paint(None, LINE)}/>'
