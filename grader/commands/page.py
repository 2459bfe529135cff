"""The page that commands print on: at most 80 columns, colour only on a terminal that wants it."""

from __future__ import annotations

import os
import sys

from rich.console import Console
from rich.text import Text

WIDTH = 80


def page(stderr: bool = False) -> Console:
    """A console for plain text; on anything but a terminal, and under NO_COLOR, it prints no escape codes."""
    wanted = {} if not os.environ.get("NO_COLOR") else {"color_system": None}
    console = Console(stderr=stderr, highlight=False, markup=False, emoji=False, **wanted)
    if console.width > WIDTH:
        console.width = WIDTH
    return console


def complain(sentence: str) -> None:
    """One sentence on standard error."""
    console = page(stderr=True)
    say(console, f"headway: {sentence}", soft_wrap=not console.is_terminal)


def say(console: Console, sentence: str | Text, soft_wrap: bool = False) -> None:
    """Print sentences, wrapped between words: a path longer than the page stays whole."""
    console.print(sentence, overflow="ignore", soft_wrap=soft_wrap)


def command_line(command: str) -> Text:
    """A command on a line of its own, ready to be copied."""
    return Text(f"    {command}", style="bold cyan")


def bar(share: float, width: int = 20) -> Text:
    """A bar that is full only when all is done."""
    full, rest = ("█", "·") if _speaks_unicode() else ("#", ".")
    filled = width if share >= 1 else min(int(share * width + 0.5), width - 1)
    return Text(full * filled, style="green") + Text(rest * (width - filled), style="dim")


def quietly_encode() -> None:
    """Let a terminal that lacks a character show a question mark in its place."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _speaks_unicode() -> bool:
    try:
        "█·".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
