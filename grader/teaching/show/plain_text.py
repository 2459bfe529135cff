"""Pictures without colour: a digit for each number of a table, a letter for each line of a chart."""

from __future__ import annotations

import math
from collections.abc import Iterable

from grader.teaching.show.half_blocks import rasterise
from grader.teaching.show.panels import Chart, Grid, Panel
from grader.teaching.show.scales import Span
from rich.text import Text

MARKS = "abcdefgh"


def cells(grid: Grid, span: Span, across: int) -> list[Text]:
    """Draw small whole numbers as they are. Scale other numbers so that 9 is the largest; negative ones get a minus. A point is zero."""
    return [Text("".join(f"{_digit(value, span, grid):>{across}}" for value in row), no_wrap=True) for row in grid.values]


def key(panel: Panel, span: Span) -> str:
    if isinstance(panel, Grid) and panel.words:
        return f"# {panel.words[1]}   . {panel.words[0]}" + ("   ? no number" if span.holes else "")
    if isinstance(panel, Grid) and whole(panel):
        return ". stands for 0" + (", ? for no number" if span.holes else "")
    greatest = max(map(abs, span.ends))
    small = ", -0 for a small negative number" if span.low < 0 else ""
    return f"the digit 9 stands for {greatest:.3g}, . for 0{small}" + (", ? for no number" if span.holes else "")


def whole(grid: Grid) -> bool:
    """Return whether all numbers are whole and short enough to be written out."""
    return all(value == round(value) and abs(value) < 100 for row in grid.values for value in row if math.isfinite(value))


def width(grids: Iterable[Grid]) -> int:
    """Return the columns that a cell needs."""
    longest = 1
    for grid in grids:
        numbers = [value for row in grid.values for value in row if math.isfinite(value)]
        longest = max(longest, *(len(f"{value:.0f}") if whole(grid) else 1 + (value < 0) for value in numbers), 1)
    return longest + 1


def plot(chart: Chart, x: Span, y: Span, wide: int, tall: int) -> list[Text]:
    rows = [[" "] * wide for _ in range(tall)]
    for number, points in reversed(list(enumerate(chart.lines.values()))):
        for column, row in rasterise(points, x, y, wide, tall):
            rows[row][column] = MARKS[number % len(MARKS)]
    return [Text("|" + "".join(row), no_wrap=True) for row in rows]


def _digit(value: float, span: Span, grid: Grid) -> str:
    if not math.isfinite(value):
        return "?"
    if grid.words and value in (0, 1):
        return "#" if value else "."
    greatest = max(map(abs, span.ends))
    if value == 0 or greatest == 0:
        return "."
    if whole(grid):
        return f"{value:.0f}"
    return f"{'-' if value < 0 else ''}{round(9 * abs(value) / greatest)}"
