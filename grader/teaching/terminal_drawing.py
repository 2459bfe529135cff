"""Tables, grids, bars and curves as text in a terminal, at most 80 columns wide: for walks, trainings and play.

With colours a grid is shaded and a bar is blue; elsewhere all is plain text.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from grader.console.output import supports_unicode
from grader.teaching.drawing import shade, terminal_style
from rich.cells import cell_len
from rich.text import Text

FAINT = "bright_black"
BAR_LENGTH = 30
BAR_CHARACTERS = 24
EIGHTHS = " ▏▎▍▌▋▊▉"

Block = list[Text | str]  # a Text is a line of its own, a str is prose


def line(text: str, style: str = "") -> Block:
    """Return one line that is not wrapped: code, or a sentence that a model wrote. It must fit."""
    return [Text(text, style=style)]


BLANK: Block = [Text()]


def table(rows: Iterable[Sequence[Any]], header: Sequence[str] = (), form: str = "", *, left: int = 1) -> Block:
    """Return a table whose columns are as wide as needed. The first `left` columns are aligned left, the others right.

    `form` is the format of all fractions, or one format for each column, separated by spaces; `-` means that a column
    has none.
    """
    cells = [[_cell(value, form, column) for column, value in enumerate(row)] for row in rows]
    every = [list(header), *cells] if header else cells
    widths = [max(cell_len(row[i]) for row in every) for i in range(len(every[0]))]
    lines: Block = []
    for number, row in enumerate(every):
        padded = [_pad(cell, width, right=i >= left) for i, (cell, width) in enumerate(zip(row, widths))]
        lines.append(Text("  ".join(padded).rstrip(), style=FAINT if header and number == 0 else ""))
    return lines


def _cell(value: Any, form: str, column: int) -> str:
    forms = form.split()
    if len(forms) > 1 and not isinstance(value, str):
        return format(value, forms[column].strip("-"))
    return format(value, form) if isinstance(value, float) else str(value)


def grid(
    values: Any,
    rows: Sequence[str],
    columns: Sequence[str] = (),
    *,
    decimals: int = 2,
    width: int = 0,
    after: Sequence[str] = (),
) -> Block:
    """Return a matrix of numbers, coloured by size in a terminal; NaN is shown as a dot.

    `width` is the minimum width of a cell. `after` has a text for the end of each row: use it for scripts whose width
    differs between terminals.
    """
    cells = [[_number(value, decimals) for value in row] for row in values]
    wide = max([width, *(len(cell) for row in cells for cell in row), *map(cell_len, columns)])
    finite = [value for row in values for value in row if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    label = max(map(cell_len, rows))
    heads = "".join(" " + _pad(name, wide, right=True) for name in columns)
    lines: Block = [Text(" " * label + heads, style=FAINT)] if columns else []
    for number, name in enumerate(rows):
        text = Text(_pad(name, label, right=False))
        for value, cell in zip(values[number], cells[number]):
            style = terminal_style(shade(value, low, high)) if math.isfinite(value) else FAINT
            text.append(" ").append(_pad(cell, wide, right=True), style=style)
        lines.append(text + Text(f"  {after[number]}" if after else ""))
    return lines


def grids(named: Mapping[str, Any], *, decimals: int = 2) -> Block:
    """Return matrices of the same height side by side, each under its name and with its own colour scale."""
    blocks = []
    for name, values in named.items():
        lines = grid(values, [""] * len(values), decimals=decimals)
        block = [Text(f" {name}", style=FAINT), *(line for line in lines if isinstance(line, Text))]
        width = max(line.cell_len for line in block)
        blocks.append([line + Text(" " * (width - line.cell_len)) for line in block])
    return [Text("  ").join(lines) for lines in zip(*blocks)]


def causal(weights: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return attention weights with NaN for later positions, which a grid and a picture leave empty."""
    return [[*row[: query + 1], *[math.nan] * (len(row) - query - 1)] for query, row in enumerate(weights)]


def bars(rows: Iterable[tuple[str, float]], *, decimals: int = 2, most: float | None = None) -> Block:
    """Return one number per line with a bar; the longest bar is `most`, by default the largest number."""
    rows = list(rows)
    most = most or max((value for _, value in rows), default=1.0) or 1.0
    label, digits = max(cell_len(name) for name, _ in rows), max(len(f"{value:.{decimals}f}") for _, value in rows)
    full = "█" if supports_unicode() else "#"
    lines: Block = []
    for name, value in rows:
        bar = full * round(BAR_LENGTH * min(max(value / most, 0.0), 1.0))
        lines.append(Text.assemble(_pad(name, label, right=False), f"  {value:{digits}.{decimals}f}  ", (bar, "blue")))
    return lines


def curve(
    name: str, values: Sequence[float], *, width: int = 50, span: tuple[float, float] | None = None
) -> list[Text]:
    """Return a curve in one line, such as the loss over the steps of training, between its first and its last value.

    Its height covers the range of the values, or `span`: give the same one to curves that are to be compared.
    """
    last = len(values) - 1
    picked = [values[round(i * last / (width - 1))] for i in range(width)] if last >= width else list(values)
    low, high = span or (min(picked), max(picked))
    marks = "▁▂▃▄▅▆▇█" if supports_unicode() else "_.-=*#"
    shares = [min(max((value - low) / (high - low or 1.0), 0.0), 1.0) for value in picked]
    drawn = "".join(marks[round(share * (len(marks) - 1))] for share in shares)
    return [Text.assemble(f"{name}  {values[0]:.2f} ", (drawn, "blue"), f" {values[-1]:.2f}")]


def curves(named: Mapping[str, Sequence[float]], width: int = 36) -> Block:
    """Return a curve in a line for each name, all on one scale."""
    every = [value for values in named.values() for value in values]
    longest, span = max(map(cell_len, named)), (min(every), max(every))
    return [line for name in named for line in curve(name.ljust(longest), named[name], width=width, span=span)]


def _number(value: float, decimals: int) -> str:
    if math.isnan(value):
        return "·" if supports_unicode() else "."
    if math.isinf(value):
        return "-inf" if value < 0 else "inf"
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def _pad(text: str, width: int, right: bool) -> str:
    space = " " * max(width - cell_len(text), 0)
    return space + text if right else text + space


# ---- plain text, for lines that a model's user reads


def bar(share: float, width: int = BAR_CHARACTERS, unicode: bool = True) -> str:
    """A bar of this share of the width, padded to the width."""
    share = min(max(share, 0.0), 1.0)
    if not unicode:
        return ("#" * round(share * width)).ljust(width)
    eighths = round(share * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (EIGHTHS[rest] if rest else "")).ljust(width)


def percent(share: float) -> str:
    return f"{100 * share:5.1f} %"


def side_by_side(heads: Sequence[str], texts: Sequence[str], width: int) -> list[str]:
    """Two texts in two columns; one below the other where there is no room."""
    if width < 60:
        return [line for head, text in zip(heads, texts) for line in (head, *_wrap(text, max(width - 1, 20)), "")]
    column = (width - 4) // 2
    columns = [[head[:column], "", *_wrap(text, column)] for head, text in zip(heads, texts)]
    height = max(map(len, columns))
    left, right = ([*lines, *[""] * (height - len(lines))] for lines in columns)
    return [f"{a.ljust(column)}   {b}".rstrip() for a, b in zip(left, right)]


def _wrap(text: str, width: int) -> list[str]:
    return [line for paragraph in text.split("\n") for line in textwrap.wrap(paragraph, width) or [""]]
