"""A picture as lines of text: digits for tables, letters for curves, and colours if the terminal has them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from typing import Literal

from grader.console.output import wrap_text
from grader.teaching.drawing import CURVES, shade, terminal_style
from grader.teaching.show.panels import DIFFERENCE, Bars, Chart, Grid, Pair, Picture, Span
from rich.text import Text

MIN_WIDTH, MAX_WIDTH, PROSE_WIDTH = 20, 160, 80
GAP = 2  # columns between blocks
MAX_LABEL = 24  # columns of a row's label
CHART_LABEL, CHART_ROWS = 8, 11
MARKS = "abcdefgh"  # of the curves
NO_NUMBER_STYLE = "#000000 on #cc79a7"  # pink, which is in no scale: NaN and infinity
POSITIVE, NEGATIVE = "#3a4f9f", "#b35806"  # of bars: indigo and orange

Block = list[Text]


def find_colour_system() -> Literal["truecolor", "256"] | None:
    """Return the terminal's colour system by rich's name; None if it cannot or should not show colours."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM", "").lower() in ("dumb", "unknown"):
        return None
    return "truecolor" if os.environ.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit") else "256"


def render_picture(picture: Picture, width: int, colours: str | None) -> list[Text]:
    """Render the whole picture. `colours` is the terminal's colour system: "truecolor", "256", or None."""
    width = max(MIN_WIDTH, min(width, MAX_WIDTH))
    prose = min(width, PROSE_WIDTH)
    page = [Text(part, "bold") for part in wrap_text(f"{picture.exercise}: {picture.about}", prose)]
    page += [Text(part, "dim") for part in wrap_text(picture.look, prose)]
    page += [Text(part, "green" if picture.agrees else "yellow") for part in wrap_text(picture.verdict, prose)]
    for pair in picture.pairs:
        page += [Text(), *_render_pair(pair, width)]
        page += [Text(part, "yellow") for part in wrap_text(pair.note, prose) if pair.note]
    for line in page:
        line.truncate(width)
    return page if colours else [Text(line.plain, no_wrap=True) for line in page]


def _render_pair(pair: Pair, width: int) -> list[Text]:
    panel = pair.reference
    head = [Text.assemble((part, "bold")) for part in wrap_text(panel.title, width)]
    if len(head) == 1 and len(panel.title) + len(panel.axes) + 3 < width:
        head[0].append(f"   {panel.axes}", "dim")
    else:
        head += [Text(part, "dim") for part in wrap_text(panel.axes, width) if panel.axes]
    match panel:
        case Grid():
            blocks, below = _draw_grids(pair, width)
        case Chart():
            blocks, below = _draw_charts(pair, width)
        case Bars():
            blocks, below = _draw_bars(pair, width)
    return [*head, *_side_by_side(blocks, width), *below]


def _side_by_side(blocks: list[Block], width: int) -> list[Text]:
    rows: list[list[Block]] = []
    for block in blocks:
        if rows and sum(_block_width(one) + GAP for one in rows[-1]) + _block_width(block) <= width:
            rows[-1].append(block)
        else:
            rows.append([block])
    page: list[Text] = []
    for row in rows:
        page += [Text()] * bool(page)
        for number in range(max(map(len, row))):
            line, column = Text(no_wrap=True), 0
            for block in row:
                line.append(" " * (column - line.cell_len))
                line.append_text(block[number] if number < len(block) else Text())
                column += _block_width(block) + GAP
            page.append(line)
    return page


def _block_width(block: Block) -> int:
    return max((line.cell_len for line in block), default=0)


def _heading(heading: str, indent: int) -> Text:
    return Text.assemble(" " * indent, (heading, "bold yellow" if heading.startswith(DIFFERENCE) else "cyan"))


# ---- tables


def _draw_grids(pair: Pair[Grid], width: int) -> tuple[list[Block], list[Text]]:
    grids = pair.panels
    digits = max(_cell_width(grid) for grid in grids.values())
    blocks: list[Block] = []
    for heading, grid in grids.items():
        label = min(MAX_LABEL, max(map(len, grid.rows), default=0))
        step = max(1, -(-len(grid.columns) * digits // max(width - label - 1, digits)))
        block = [_heading(heading, label + 1)]
        block += [Text(" " * (label + 1) + line, "dim") for line in _column_labels(grid.columns[::step], digits)]
        span, whole = pair.span(grid), _is_whole(grid)
        for name, row in zip(grid.rows, grid.values):
            cells = [_cell(value, span, whole, grid.words, digits) for value in row[::step]]
            block.append(Text.assemble(f"{name[:label]:>{label}} ", *cells))
        blocks.append(block + [Text(f"one column of {step} is shown", "dim")] * (step > 1))
    keys = [_explain_digits(pair.reference, pair.span(pair.reference))]
    if pair.differs is not None:
        keys.append(f"{DIFFERENCE}: {_explain_digits(pair.differs, pair.span(pair.differs))}")
    return blocks, [Text(part, "dim") for key in keys for part in wrap_text(key, width)]


def _cell(value: float, span: Span, whole: bool, words: object, width: int) -> tuple[str, str]:
    """Return a number as text with a style. The largest one is the digit 9; in a `whole` grid, each is as it is."""
    if not math.isfinite(value):
        return f"{'?':>{width}}", NO_NUMBER_STYLE
    if words and value in (0, 1):
        said = "#" if value else "."
    elif value == 0 or span.largest == 0:
        said = "."
    elif whole:
        said = f"{value:.0f}"
    else:
        said = f"{'-' if value < 0 else ''}{round(9 * abs(value) / span.largest)}"
    return f"{said:>{width}}", terminal_style(shade(value, span.low, span.high))


def _is_whole(grid: Grid) -> bool:
    """Return whether all numbers are whole and short enough to be written out."""
    return all(value == round(value) and abs(value) < 100 for value in grid.shown() if math.isfinite(value))


def _cell_width(grid: Grid) -> int:
    whole = _is_whole(grid)
    lengths = [len(f"{value:.0f}") if whole else 1 + (value < 0) for value in grid.shown() if math.isfinite(value)]
    return max(lengths, default=1) + 1


def _column_labels(columns: list[str], width: int) -> list[str]:
    """Return the labels above the columns: numbers in one line if they fit, words with one letter below the other."""
    longest = max(map(len, columns), default=0)
    if longest < width or all(label.isdigit() for label in columns):
        step = -(-(longest + 1) // width)
        return ["".join(f"{label:>{width}}".ljust(step * width) for label in columns[::step]).rstrip()]
    return ["".join(f"{label.rjust(longest)[row]:>{width}}" for label in columns).rstrip() for row in range(longest)]


def _explain_digits(grid: Grid, span: Span) -> str:
    gaps = ", ? for no number" if span.has_gaps else ""
    if grid.words:
        return f"# {grid.words[1]}   . {grid.words[0]}" + ("   ? no number" if span.has_gaps else "")
    if _is_whole(grid):
        return f". means 0{gaps}"
    small = ", -0 for a small negative number" if span.low < 0 else ""
    return f"the digit 9 means {span.largest:.3g}, . for 0{small}{gaps}"


# ---- charts and bars


def _panel_width(panels: int, width: int, least: int) -> int:
    """Return the columns for each panel, with as many in a row as leave at least `least` columns to each."""
    widths = [(width - GAP * (count - 1)) // count for count in (panels, 2, 1) if count <= panels]
    return next((one for one in widths if one >= least), widths[-1])


def _draw_charts(pair: Pair[Chart], width: int) -> tuple[list[Block], list[Text]]:
    blocks: list[Block] = []
    columns = min(60, _panel_width(len(pair.panels), width, 36)) - CHART_LABEL - 2
    for heading, chart in pair.panels.items():
        if chart.y_name != pair.reference.y_name:
            heading = f"{heading}: {chart.y_name}"
        scaled = [points for one in pair.same_scale(chart) for points in one.lines.values()]
        x, y = Span.of(x for points in scaled for x, _ in points), pair.span(chart)
        across = min(columns, 2 * CHART_ROWS) if chart.square else columns
        if chart.square:  # one unit of x is as wide as two lines, which is about as tall as one unit of y
            unit = max((x.high - x.low) / (across / 2), (y.high - y.low) / CHART_ROWS) or 1.0
            x, y = _widen(x, unit * across / 2), _widen(y, unit * CHART_ROWS)
        ends = {0: f"{y.high:.3g}", CHART_ROWS - 1: f"{y.low:.3g}"}
        body = [
            Text.assemble((f"{ends.get(row, ''):>{CHART_LABEL}} |", "dim"), line)
            for row, line in enumerate(_plot(chart, x, y, across, CHART_ROWS))
        ]
        last = f"{x.high:.6g}"
        foot = Text(" " * (CHART_LABEL + 2) + f"{x.low:.6g}".ljust(across - len(last)) + last, "dim")
        blocks.append([_heading(heading, CHART_LABEL + 2), *body, foot])
    names = enumerate(pair.reference.lines)
    key = Text("   ").join(Text.assemble(_mark(number), f" {name}") for number, name in names)
    if any(Span.of(chart.shown()).has_gaps for chart in pair.panels.values()):
        key.append("   a gap: no number")
    return blocks, [key]


def _mark(number: int) -> tuple[str, str]:
    return MARKS[number], terminal_style(CURVES[number % len(CURVES)])


def _widen(span: Span, length: float) -> Span:
    middle = (span.low + span.high) / 2
    return Span(middle - length / 2, middle + length / 2, span.has_gaps)


def _plot(chart: Chart, x: Span, y: Span, width: int, height: int) -> list[Text]:
    cells: dict[tuple[int, int], int] = {}
    for number, points in reversed(list(enumerate(chart.lines.values()))):
        cells |= dict.fromkeys(touched_cells(points, x, y, width, height), number)
    rows = []
    for row in range(height):
        line = Text(no_wrap=True)
        for column in range(width):
            line.append(*_mark(cells[column, row]) if (column, row) in cells else (" ",))
        rows.append(line)
    return rows


def touched_cells(
    points: Sequence[tuple[float, float]], x: Span, y: Span, width: int, height: int
) -> Iterable[tuple[int, int]]:
    """Give the cells (column, row) that a line through these points touches."""
    before = None
    for point in points:
        if not all(map(math.isfinite, point)):
            before = None
            continue
        here = _cell_of(point[0], x.low, x.high, width), _cell_of(point[1], y.high, y.low, height)
        start = before or here
        steps = max(abs(here[0] - start[0]), abs(here[1] - start[1]), 1)
        for i in range(steps + 1):
            yield round(start[0] + (here[0] - start[0]) * i / steps), round(start[1] + (here[1] - start[1]) * i / steps)
        before = here


def _cell_of(value: float, first: float, last: float, count: int) -> int:
    share = (value - first) / (last - first) if last != first else 0.5
    return min(max(round(share * (count - 1)), 0), count - 1)


def _draw_bars(pair: Pair[Bars], width: int) -> tuple[list[Block], list[Text]]:
    label = max(len(name) for bars in pair.panels.values() for name in bars.labels)
    room = max(4, min(44, _panel_width(len(pair.panels), width, label + 18)) - label - 10)
    blocks: list[Block] = []
    for heading, bars in pair.panels.items():
        block = [_heading(heading, label + 1)]
        for name, value in zip(bars.labels, bars.values):
            length = round(room * abs(value) / (pair.span(bars).largest or 1.0)) if math.isfinite(value) else 0
            colour = POSITIVE if value >= 0 else NEGATIVE
            bar = (("#" if value >= 0 else "-") * length, f"{colour} on {colour}")
            said = f"{value:.3g}" if math.isfinite(value) else "no number"
            block.append(Text.assemble(f"{name:>{label}} ", bar, f" {said}"))
        blocks.append(block)
    return blocks, []
