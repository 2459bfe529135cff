"""Terminal output of the commands: at most 80 columns, and colour only on a terminal that supports it."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap

from rich.console import Console, ConsoleDimensions
from rich.text import Text

WIDTH = 80


def make_console(stderr: bool = False) -> Console:
    """A console for plain text; without a terminal, or with NO_COLOR, it prints no escape codes."""
    console = Console(
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
