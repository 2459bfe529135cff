"""Curves in a terminal: two by four dots in each character, or one mark in each where the terminal has ASCII only."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

Points = Sequence[tuple[float, float]]

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # of a braille character, by row and column
_BLANK = 0x2800
LABEL = 5  # columns for the numbers beside the axis


def draw_curves(
    curves: Sequence[tuple[Points, str]], last_x: float, width: int, height: int, unicode: bool = True
) -> list[Text]:
    """`height` lines of at most `width` columns: (points, style) each, from x = 0 to `last_x`; a later curve covers an
    earlier one."""
    ys = [y for points, _ in curves for _, y in points]
    columns = width - LABEL - 2
    if not ys or columns < 4 or height < 2:
        return []
    low, high = min(ys), max(ys)
    margin = (high - low) * 0.02 or 0.5
    low, high = low - margin, high + margin
    across, down = (2, 4) if unicode else (1, 1)
    cells: dict[tuple[int, int], tuple[int, int]] = {}  # (row, column) -> dots, number of the curve
    for number, (points, _) in enumerate(curves):
        for x, y in _between(points, last_x, columns * across):
            dot_y = min(int((high - y) / (high - low) * height * down), height * down - 1)
            spot = (dot_y // down, x // across)
            dots, owner = cells.get(spot, (0, number))
            dot = _DOTS[dot_y % 4][x % 2] if unicode else 1
            cells[spot] = (dots | dot, number) if owner == number else (dot, number)
    lines = []
    for row in range(height):
        label = f"{high:.2f}" if row == 0 else f"{low:.2f}" if row == height - 1 else ""
        line = Text(f"{label:>{LABEL}} " + ("│" if unicode else "|"), style="dim")
        for column in range(columns):
            dots, number = cells.get((row, column), (0, -1))
            mark = chr(_BLANK + dots) if unicode and dots else " " if not dots else "*o"[number % 2]
            line.append(mark, style=curves[number][1] if dots else "")
        line.rstrip()
        lines.append(line)
    return lines


def _between(points: Points, last_x: float, dots: int) -> list[tuple[int, float]]:
    """One (column of dots, y) for each column that the curve passes; the mean where several points share one."""
    sums: dict[int, tuple[float, int]] = {}
    for x, y in points:
        column = min(int(x / max(last_x, 1) * (dots - 1)), dots - 1)
        total, count = sums.get(column, (0.0, 0))
        sums[column] = total + y, count + 1
    places = [(column, total / count) for column, (total, count) in sorted(sums.items())]
    found = places[:1]
    for (x0, y0), (x1, y1) in zip(places, places[1:]):
        found += [(x, y0 + (y1 - y0) * (x - x0) / (x1 - x0)) for x in range(x0 + 1, x1 + 1)]
    return found
