"""Draws the watch on a whole terminal: heading above, keys below, and between them the verdict, which can be scrolled."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
from collections.abc import Iterator

from grader.teaching.show.half_blocks import find_colour_system
from grader.watch.page import KEYS, body, heading, status
from grader.watch.state import State
from rich.console import Console
from rich.text import Text

ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
SMALL = 30, 8  # columns and rows below which nothing can be read


class Screen:
    def __init__(self) -> None:
        self.top = 0  # the first line of the verdict that is shown
        self.rows = 10  # of the verdict, that fit
        self.length = 0

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """The terminal is ours until the end, and then as it was before."""
        _write(ENTER)
        try:
            yield
        finally:
            _write(LEAVE)

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        _write(LEAVE)
        try:
            yield
        finally:
            _write(ENTER)

    @property
    def size(self) -> tuple[int, int]:
        columns, rows = shutil.get_terminal_size()
        return max(columns, SMALL[0]), max(rows, SMALL[1])

    def draw(self, state: State, chooser: list[Text] | None = None, at: int = 0) -> None:
        """All of it; `chooser` is a list in the verdict's place, with line `at` in view."""
        columns, rows = self.size
        above = [*heading(state, columns), Text("")]
        below = [Text(""), *status(state, columns), *([Text(state.word, "dim")] if state.word else []), _keys(columns, chooser is not None)]
        if chooser is not None:  # what was typed stays in view
            above, middle, at = [*above, chooser[0]], chooser[1:], at - 1
        else:
            middle = _folded(body(state, columns), columns)
        room = max(1, rows - len(above) - len(below))
        if len(middle) <= room:
            self.top, shown = 0, middle
        else:
            room -= 1
            if chooser is not None:
                self.top = min(max(self.top, at - room + 1), at)
            self.top = max(0, min(self.top, len(middle) - room))
            shown = middle[self.top : self.top + room]
            under = len(middle) - room - self.top
            shown = [*shown, Text(f"  {_arrows(self.top, under)}", "dim")]
        self.rows, self.length = room, len(middle)
        filled = [*above, *shown, *[Text("")] * (rows - len(above) - len(below) - len(shown)), *below]
        _write("\x1b[H" + "\x1b[K\r\n".join(_drawn(line, columns) for line in filled[:rows]) + "\x1b[K\x1b[J")

    def scroll(self, lines: int) -> None:
        self.top = max(0, min(self.top + lines, max(0, self.length - self.rows)))


def _folded(lines: list[Text], columns: int) -> list[Text]:
    """Long lines as several, and no empty one at the top."""
    while lines and not lines[0].plain:
        lines = lines[1:]
    console = Console(file=io.StringIO(), width=columns)
    return [part for line in lines for part in (line.wrap(console, columns) if line.cell_len > columns else [line])]


def _arrows(above: int, under: int) -> str:
    words = [f"{n} more {where}" for n, where in ((above, "above"), (under, "below")) if n]
    return f"{' and '.join(words)}: the arrow keys scroll"


def _keys(columns: int, choosing: bool) -> Text:
    if choosing:
        return Text("type a part of the name   up, down   enter: watch it   escape: back", "bold", no_wrap=True)
    line = Text()
    for key, word in KEYS:
        if len(line) + len(word) + 4 <= columns or not line:
            line.append("  " if line else "").append(key, "bold cyan").append(f" {word}")
    return line


def _drawn(line: Text, columns: int) -> str:
    """One line with its colours, never longer than the screen is wide."""
    line = line.copy()
    line.truncate(columns, overflow="ellipsis")
    out = io.StringIO()
    console = Console(
        file=out, force_terminal=True, width=columns + 1, legacy_windows=False,
        color_system=None if os.environ.get("NO_COLOR") else find_colour_system() or "standard",
    )  # fmt: skip
    console.print(line, end="", no_wrap=True, overflow="crop", soft_wrap=True, highlight=False)
    return out.getvalue()


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
