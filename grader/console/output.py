"""Terminal output of the commands: at most 80 columns, and colour only on a terminal that supports it."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleDimensions
from rich.segment import Segment
from rich.text import Text

WIDTH = 80


def without_controls(text: str) -> str:
    """The text with a replacement character for each control character, which a terminal might obey."""
    return "".join(c if c in "\n\t" or not (ord(c) < 32 or 127 <= ord(c) < 160) else "\ufffd" for c in text)


class PlainConsole(Console):
    """Whatever a text contains, such as the name of a file, no control character of it reaches the terminal."""

    def render(self, *arguments: Any, **more: Any) -> Iterator[Segment]:
        for text, style, control in super().render(*arguments, **more):
            yield Segment(text if control else without_controls(text), style, control)


def make_console(stderr: bool = False) -> Console:
    """A console for plain text; without a terminal, or with NO_COLOR, it prints no escape codes."""
    console = PlainConsole(
        stderr=stderr, highlight=False, markup=False, emoji=False,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
    )  # fmt: skip
    if console.is_dumb_terminal:  # rich assumes 80 columns
        console.size = ConsoleDimensions(*shutil.get_terminal_size((WIDTH, 25)))
    if console.width > WIDTH:
        console.width = WIDTH
    return console


def print_error(sentence: str) -> None:
    """Print one sentence on standard error: wrapped on a terminal, else on one line."""
    sentence = sentence.replace("\n", " ")  # of a file's name
    console = make_console(stderr=True)
    if console.is_terminal:
        print_wrapped(console, f"headway: {sentence}")
    else:
        console.print(f"headway: {sentence}", soft_wrap=True)


def print_wrapped(console: Console, sentence: str, style: str = "") -> None:
    """Print prose, wrapped between words; a path or command that is longer than a line is not broken."""
    for line in wrap_text(sentence, console.width):
        console.print(Text(line, style=style), soft_wrap=True)


def print_sentence(sentence: str, style: str = "") -> None:
    """Print a sentence: wrapped on a terminal, on one line otherwise, so that a search in a log finds it."""
    console = make_console()
    if console.is_terminal:
        print_wrapped(console, sentence, style=style)
    else:
        console.print(Text(sentence, style=style), soft_wrap=True)


def wrap_text(sentence: str, width: int) -> list[str]:
    return textwrap.wrap(sentence, width - 1, break_long_words=False, break_on_hyphens=False) or [""]


def command_line(command: str) -> Text:
    """A command on its own line, ready to copy."""
    return Text(f"    {command}", style="bold cyan")


def progress_bar(share: float, width: int = 20) -> Text:
    """A bar that is full only if `share` is 1."""
    full, rest = ("█", "·") if supports_unicode() else ("#", ".")
    filled = width if share >= 1 else min(int(share * width + 0.5), width - 1)
    return Text.assemble((full * filled, "green"), (rest * (width - filled), "dim"))


def replace_unencodable() -> None:
    """Print a question mark for a character that the terminal cannot encode."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def supports_unicode() -> bool:
    """Whether standard output can print more than ASCII."""
    try:
        "█·".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


AdvanceStep = Callable[[], None]
ProgressReporter = Callable[[str, int], AbstractContextManager[AdvanceStep]]  # of what is done, and the number of steps


@contextmanager
def show_progress(what: str, total: int) -> Iterator[AdvanceStep]:
    """Show the progress to a person who waits."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn  # few commands need it

    console = make_console(stderr=True)
    if not console.is_terminal:
        console.print(f"{what} ...", soft_wrap=True)
        yield lambda: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(30), TimeRemainingColumn(compact=True))
    with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as progress:
        task = progress.add_task(what, total=total)
        yield lambda: progress.advance(task)


@contextmanager
def hide_progress(what: str, total: int) -> Iterator[AdvanceStep]:
    """Show nothing; for tests."""
    yield lambda: None


_PARTS = re.compile(r"\n|[^\S\n]+|\S+")


class WordWrap:
    """Gets a text piece by piece, and begins a new line before a word that would not fit. A word that comes in several
    pieces may still be broken."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.column = 0
        self._space = ""  # it is printed with the next word, or becomes a line break

    def feed(self, piece: str) -> str:
        """What to print for this piece."""
        printed = ""
        for part in _PARTS.findall(piece):
            if part == "\n":
                printed, self.column, self._space = printed + part, 0, ""
            elif part.isspace():
                self._space += part
            else:
                if self._space and self.column + cell_len(self._space + part) > self.width:
                    printed, self.column = printed + "\n", 0
                else:
                    printed, self.column = printed + self._space, self.column + cell_len(self._space)
                printed, self.column, self._space = printed + part, self.column + cell_len(part), ""
        return printed
