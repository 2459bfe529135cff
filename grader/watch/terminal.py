"""The terminal of the watch: it shows the page on the whole screen or as printed lines, and reads keys.

A key is its character, or a name such as "up" or "enter".
"""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator

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
        middle = _wrap_lines(body_lines(state, columns, rows), columns)
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


_NAMED = {"\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace", "\x1b": "escape", "\x03": "interrupt"}
_NAMED |= {"\x04": "q", "\x0c": "redraw"}
_SEQUENCES = {"A": "up", "B": "down", "5~": "page up", "6~": "page down", "H": "home", "F": "end"}
_SEQUENCES |= {"1~": "home", "4~": "end"}
_WINDOWS = {"H": "up", "P": "down", "I": "page up", "Q": "page down", "G": "home", "O": "end"}


class Keyboard:
    """Reads keys in its own thread while it is open; calls `on_key(None)` when the terminal is closed."""

    def __init__(self, on_key: Callable[[str | None], None]) -> None:
        self.on_key = on_key
        self.reading = threading.Event()
        self.idle = threading.Event()
        self.closed = False
        self._before: list | None = None
        read_keys = self._posix if os.name == "posix" else self._windows
        threading.Thread(target=read_keys, name="headway keys", daemon=True).start()

    def open(self) -> None:
        """Deliver each key when it is pressed, without echo."""
        if os.name == "posix":
            import termios
            import tty

            with contextlib.suppress(termios.error, ValueError):
                before = termios.tcgetattr(sys.stdin)
                tty.setcbreak(sys.stdin, termios.TCSANOW)
                self._before = self._before or before
        self.idle.clear()
        self.reading.set()

    def close(self) -> None:
        """Restore the terminal settings, and read nothing until the keyboard is opened again."""
        self.reading.clear()
        self.idle.wait(0.5)
        if self._before is not None:
            import termios

            with contextlib.suppress(termios.error, ValueError):
                termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._before)

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """Let another program, such as an editor, use the keyboard."""
        self.close()
        try:
            yield
        finally:
            self.open()

    def _posix(self) -> None:
        import select

        descriptor, decoder = sys.stdin.fileno(), codecs.getincrementaldecoder("utf-8")("replace")
        while True:
            if not self.reading.is_set():
                self.idle.set()
                self.reading.wait()
            try:
                if not select.select([descriptor], [], [], 0.1)[0] or not self.reading.is_set():
                    continue
                data = os.read(descriptor, 1024)
            except OSError:
                data = b""
            if not data:
                self.on_key(None)
                return
            for key in parse_keys(decoder.decode(data)):
                self.on_key(key)

    def _windows(self) -> None:
        if sys.platform != "win32":
            return
        import msvcrt

        while True:
            if not self.reading.is_set():
                self.idle.set()
                self.reading.wait()
            if not msvcrt.kbhit():
                time.sleep(0.02)
                continue
            character = msvcrt.getwch()
            is_special = character in "\x00\xe0"
            self.on_key(_WINDOWS.get(msvcrt.getwch(), "") if is_special else _NAMED.get(character, character))


def parse_keys(text: str) -> Iterator[str]:
    """Split what a terminal sends into keys: an arrow arrives as several characters."""
    while text:
        if text[0] == "\x1b" and text[1:2] in ("[", "O"):
            end = next((i for i, c in enumerate(text[2:], start=2) if c.isalpha() or c == "~"), len(text) - 1)
            yield _SEQUENCES.get(text[2 : end + 1], "")
            text = text[end + 1 :]
        else:
            yield _NAMED.get(text[0], text[0])
            text = text[1:]
