"""The page that commands print on: at most 80 columns, colour only on a terminal that wants it."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap

from rich.console import Console, ConsoleDimensions
from rich.text import Text

WIDTH = 80


def make_console(stderr: bool = False) -> Console:
    """A console for plain text; on anything but a terminal, and under NO_COLOR, it prints no escape codes."""
    console = Console(stderr=stderr, highlight=False, markup=False, emoji=False, color_system=None if os.environ.get("NO_COLOR") else "auto")
    if console.is_dumb_terminal:  # rich takes one for 80 columns wide
        console.size = ConsoleDimensions(*shutil.get_terminal_size((WIDTH, 25)))
    if console.width > WIDTH:
        console.width = WIDTH
    return console


def print_error(sentence: str) -> None:
    """One sentence on standard error: one line where no terminal is there to need it shorter."""
    console = make_console(stderr=True)
    if console.is_terminal:
        print_wrapped(console, f"headway: {sentence}")
    else:
        console.print(f"headway: {sentence}", soft_wrap=True)


def print_wrapped(console: Console, sentence: str, style: str = "") -> None:
    """Print prose, wrapped between words: a path or command longer than the page stays whole."""
    for line in wrap_text(sentence, console.width):
        console.print(Text(line, style=style), soft_wrap=True)


def wrap_text(sentence: str, width: int) -> list[str]:
    return textwrap.wrap(sentence, width - 1, break_long_words=False, break_on_hyphens=False) or [""]


def command_line(command: str) -> Text:
    """A command on a line of its own, ready to be copied."""
    return Text(f"    {command}", style="bold cyan")


def progress_bar(share: float, width: int = 20) -> Text:
    """A bar that is full only when all is done."""
    full, rest = ("█", "·") if supports_unicode() else ("#", ".")
    filled = width if share >= 1 else min(int(share * width + 0.5), width - 1)
    return Text.assemble((full * filled, "green"), (rest * (width - filled), "dim"))


def replace_unencodable() -> None:
    """Let a terminal that lacks a character show a question mark in its place."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def supports_unicode() -> bool:
    """Whether what is printed may be more than ASCII."""
    try:
        "█·".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
