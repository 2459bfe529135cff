"""The page that a walk is printed on: steps, prose, tables, grids of numbers, bars; at most 80 columns.

In a terminal it has colours and can wait for a key before each step; elsewhere it is plain text.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from grader.console.output import command_line, print_wrapped, supports_unicode
from grader.teaching.drawing.palette import INK, parts, value_to_hex
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

INDENT = "  "
FAINT = "bright_black"
SPARKS = "▁▂▃▄▅▆▇█"


class WalkQuit(Exception):
    """The user pressed q."""


class _Block:
    """One matrix whose cells have the same width."""

    def __init__(self, name: str, values: Any, columns: Sequence[str], decimals: int, width: int, empty: str) -> None:
        self.name, self.columns = name, columns
        self.numbers = [[float(value) for value in row] for row in (values.tolist() if hasattr(values, "tolist") else values)]
        self.texts = [[empty if math.isnan(value) else _number(value, decimals) for value in row] for row in self.numbers]
        self.wide = max([width, *(len(text) for row in self.texts for text in row), *(cell_len(column) for column in columns)])
        self.total = max(len(self.texts[0]) * (self.wide + 1), cell_len(name) + 1)
        self.seen = [value for row in self.numbers for value in row if math.isfinite(value)]

    def row(self, number: int) -> Text:
        low, high = min(self.seen, default=0.0), max(self.seen, default=0.0)
        text = Text()
        for value, cell in zip(self.numbers[number], self.texts[number]):
            text.append(" ")
            text.append(_pad(cell, self.wide, right=True), style=_shade(value, low, high) if math.isfinite(value) else FAINT)
        text.append(" " * (self.total - text.cell_len))
        return text


class WalkPage:
    """Prints a walk; each method prints what its name says. `wait` is called before every step but the first."""

    def __init__(self, console: Console, wait: Callable[[], None] = lambda: None) -> None:
        self.console = console
        self.wait = wait
        self.width = console.width
        self.steps = 0
        self.fancy = supports_unicode()
        self.dot = "·" if self.fancy else "."

    # ---- words

    def title(self, text: str) -> None:
        self.console.print(Text(text, style="bold"))

    def step(self, text: str, note: str = "") -> None:
        """A numbered heading, with a short note at its right, such as the shape of the result."""
        if self.steps:
            self.wait()
        self.steps += 1
        self._heading(f"{self.steps}  {text}".ljust(41) + f" {note}" if note else f"{self.steps}  {text}")

    def end(self, text: str) -> None:
        """The heading after the last step."""
        self.wait()
        self._heading(text)

    def _heading(self, text: str) -> None:
        rule = "─" if self.fancy else "-"
        self.console.print()
        self.console.print(Text(f"{rule * 2} {text} ".ljust(self.width, rule), style="bold"), soft_wrap=True)

    def say(self, text: str, style: str = "") -> None:
        """Wrapped prose."""
        print_wrapped(self.console, text, style)

    def blank(self) -> None:
        self.console.print()

    def line(self, text: str, style: str = "") -> None:
        """One indented line, not wrapped: code, or a sentence that the model wrote. It must fit."""
        self._print(Text(text, style=style))

    def command(self, text: str) -> None:
        self.console.print(command_line(text), soft_wrap=True)

    # ---- numbers

    def table(self, rows: Sequence[Sequence[Any]], header: Sequence[str] = (), *, left: int = 1, gap: int = 2) -> None:
        """A table whose columns are as wide as needed. The first `left` columns are aligned left, the others right."""
        cells = [[str(cell) for cell in row] for row in rows]
        every = [list(header), *cells] if header else cells
        widths = [max(cell_len(row[i]) for row in every) for i in range(len(every[0]))]
        for number, row in enumerate(every):
            padded = [_pad(cell, width, right=i >= left) for i, (cell, width) in enumerate(zip(row, widths))]
            self._print(Text((" " * gap).join(padded).rstrip(), style=FAINT if header and number == 0 else ""))

    def grid(
        self, values: Any, rows: Sequence[str], columns: Sequence[str] = (), *, decimals: int = 2, width: int = 0, after: Sequence[str] = ()
    ) -> None:
        """A matrix of numbers, coloured by size in a terminal; NaN is shown as a dot.

        `width` is the minimum width of a cell. `after` has a text for the end of each row: use it for scripts whose width differs
        between terminals.
        """
        self._grids([_Block("", values, columns, decimals, width, self.dot)], rows, after)

    def grids(self, named: Sequence[tuple[str, Any]], rows: Sequence[str], *, decimals: int = 2) -> None:
        """Matrices with the same number of rows side by side, each under its name and with its own colour scale."""
        self._grids([_Block(name, values, (), decimals, 0, self.dot) for name, values in named], rows)

    def _grids(self, blocks: Sequence[_Block], rows: Sequence[str], after: Sequence[str] = ()) -> None:
        label = max(cell_len(row) for row in rows)
        gap = " " * 2
        if any(block.name for block in blocks):
            self._print(Text(" " * label + gap.join(_pad(" " + block.name, block.total, right=False) for block in blocks), style=FAINT))
        if any(block.columns for block in blocks):
            heads = ["".join(" " + _pad(column, block.wide, right=True) for column in block.columns) for block in blocks]
            self._print(Text(" " * label + gap.join(heads), style=FAINT))
        for number, row in enumerate(rows):
            text = Text(_pad(row, label, right=False))
            for place, block in enumerate(blocks):
                text.append(gap if place else "")
                text.append(block.row(number))
            text.append(gap + after[number] if after else "")
            self._print(text)

    def bars(self, rows: Iterable[tuple[str, float]], *, decimals: int = 2, most: float | None = None, width: int = 30) -> None:
        """One number per line with a bar of proportional length. The longest bar is `most`, by default the largest number."""
        rows = list(rows)
        most = most or max((value for _, value in rows), default=1.0) or 1.0
        label, digits = max(cell_len(name) for name, _ in rows), max(len(f"{value:.{decimals}f}") for _, value in rows)
        full = "█" if self.fancy else "#"
        for name, value in rows:
            length = round(width * min(max(value / most, 0.0), 1.0))
            self._print(Text.assemble(_pad(name, label, right=False), f"  {value:{digits}.{decimals}f}  ", (full * length, "blue")))

    def curve(self, name: str, values: Sequence[float], *, width: int = 50, span: tuple[float, float] | None = None) -> None:
        """A curve in one line, such as the loss over the steps of training, between its first and its last value.

        Its height covers the range of the values, or `span`: give the same one to curves that are to be compared.
        """
        picked = [values[round(i * (len(values) - 1) / (width - 1))] for i in range(width)] if len(values) > width else list(values)
        low, high = span or (min(picked), max(picked))
        marks = SPARKS if self.fancy else "_.-=*#"
        shares = [min(max((value - low) / (high - low or 1.0), 0.0), 1.0) for value in picked]
        heights = [round(share * (len(marks) - 1)) for share in shares]
        self._print(Text.assemble(f"{name}  {values[0]:.2f} ", ("".join(marks[h] for h in heights), "blue"), f" {values[-1]:.2f}"))

    def _print(self, text: Text) -> None:
        line = Text(INDENT) + text
        line.rstrip()
        self.console.print(line, soft_wrap=True)


def shape(tensor_or_size: Any) -> str:
    """Write a shape as `(1, 5, 32)`, from a tensor or a size."""
    size = tuple(getattr(tensor_or_size, "shape", tensor_or_size))
    return "(" + ", ".join(str(n) for n in size) + ("," if len(size) == 1 else "") + ")"


def _number(value: float, decimals: int) -> str:
    if math.isinf(value):
        return "-inf" if value < 0 else "inf"
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def _pad(text: str, width: int, right: bool) -> str:
    space = " " * max(width - cell_len(text), 0)
    return space + text if right else text + space


def _shade(value: float, low: float, high: float) -> str:
    fill = value_to_hex(value, low, high)
    red, green, blue = parts(fill)
    return f"{'#ffffff' if 0.299 * red + 0.587 * green + 0.114 * blue < 140 else INK.light} on {fill}"


# ---- pace


def wait_for_key(console: Console) -> None:
    """Wait until a key is pressed; raise WalkQuit on q."""
    prompt = "press any key to continue, q to quit"
    console.print(Text(prompt, style=FAINT), end="\r")
    key = _key()
    console.print(" " * len(prompt), end="\r")
    if key in ("q", "Q", "\x04", ""):
        raise WalkQuit
    if key == "\x03":
        raise KeyboardInterrupt


def _key() -> str:
    if sys.platform == "win32":
        import msvcrt

        return msvcrt.getwch()
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor, termios.TCSANOW)
        return os.read(descriptor, 16).decode("utf-8", "replace")
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
