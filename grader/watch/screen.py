"""Shows the watch: on the whole terminal, or as printed lines."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
from collections.abc import Iterator

from grader.console.output import make_console
from grader.teaching.show.terminal import find_colour_system
from grader.watch.page import KEYS, State, body_lines, heading_lines, status_lines
from rich.console import Console
from rich.text import Text

ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
MIN_COLUMNS, MIN_ROWS = 30, 8  # the page is never drawn smaller


class Display:
    """What the loop tells the display; each kind ignores what it has no use for."""

    top = 0  # the first visible line of the verdict

    def print_heading(self, state: State) -> None: ...

    def print_verdict(self, state: State) -> None: ...

    def print_file_problem(self, state: State) -> None: ...

    def print_message(self, sentence: str) -> None: ...


class PlainDisplay(Display):
    """Prints each new verdict or message once: in a pipe, a log, or a terminal that only prints lines."""

    def __init__(self) -> None:
        self.console = make_console()

    def print_heading(self, state: State) -> None:
        pinned = f"Each save tests {state.exercise.name}; `headway watch` without a name follows your changes."
        what = Text(pinned if state.pinned else "Each save tests the function that you changed.")
        self._print(*heading_lines(state, self.console.width), what, Text("Press Control-C to quit."), Text(""))

    def print_verdict(self, state: State) -> None:
        self._print(*body_lines(state, self.console.width), *status_lines(state, self.console.width), Text(""))

    def print_file_problem(self, state: State) -> None:
        self._print(*map(Text, state.file_excerpt), Text(f"{state.file_problem}. Waiting for the next save."))

    def print_message(self, sentence: str) -> None:
        self._print(Text(sentence))

    def _print(self, *lines: Text) -> None:
        for line in lines:
            self.console.print(line, soft_wrap=True)
        self.console.file.flush()


class Screen(Display):
    """The whole terminal: heading at the top, keys at the bottom, and between them the verdict, which scrolls."""

    def __init__(self) -> None:
        self.rows = 10  # visible lines of the verdict
        self.length = 0

    @contextlib.contextmanager
    def fullscreen(self) -> Iterator[None]:
        """Use the whole terminal, and restore its contents at the end."""
        _write(ENTER)
        try:
            yield
        finally:
            _write(LEAVE)

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """Restore the terminal while another program uses it."""
        _write(LEAVE)
        try:
            yield
        finally:
            _write(ENTER)

    @property
    def size(self) -> tuple[int, int]:
        columns, rows = shutil.get_terminal_size()
        return max(columns, MIN_COLUMNS), max(rows, MIN_ROWS)

    def draw(self, state: State) -> None:
        """Draw the whole page."""
        columns, rows = self.size
        above = [*heading_lines(state, columns), Text("")]
        below = [Text(""), *status_lines(state, columns), _key_line(columns, state.pinned)]
        middle = _wrap_lines(body_lines(state, columns), columns)
        room = max(1, rows - len(above) - len(below))
        if len(middle) <= room:
            self.top, shown = 0, middle
        else:
            room -= 1
            self.top = max(0, min(self.top, len(middle) - room))
            shown = middle[self.top : self.top + room]
            under = len(middle) - room - self.top
            shown = [*shown, Text(f"  {_scroll_note(self.top, under)}", "dim")]
        self.rows, self.length = room, len(middle)
        filled = [*above, *shown, *[Text("")] * (rows - len(above) - len(below) - len(shown)), *below]
        _write("\x1b[H" + "\x1b[K\r\n".join(_render(line, columns) for line in filled[:rows]) + "\x1b[K\x1b[J")

    def scroll(self, lines: int) -> None:
        self.top = max(0, min(self.top + lines, max(0, self.length - self.rows)))


def _wrap_lines(lines: list[Text], columns: int) -> list[Text]:
    """Wrap long lines, and drop empty lines at the top."""
    while lines and not lines[0].plain:
        lines = lines[1:]
    console = Console(file=io.StringIO(), width=columns)
    return [part for line in lines for part in (line.wrap(console, columns) if line.cell_len > columns else [line])]


def _scroll_note(above: int, under: int) -> str:
    words = [f"{n} more {where}" for n, where in ((above, "above"), (under, "below")) if n]
    return f"{' and '.join(words)}; scroll with the arrow keys"


def _key_line(columns: int, pinned: bool) -> Text:
    line, last = Text(), KEYS[-1]
    for key, word in KEYS:
        word = "unpin" if pinned and key == "p" else word
        reserved = 0 if key == last[0] else len("  ".join(("", " ".join(last))))  # the last key, quit, is always shown
        if len(line) + len(word) + 4 + reserved <= columns or not line:
            line.append("  " if line else "").append(key, "bold cyan").append(f" {word}")
    return line


def _render(line: Text, columns: int) -> str:
    """One line with its colours, cut at the width of the screen."""
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
