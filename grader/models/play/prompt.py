"""`headway play` line by line: in a terminal, where the text appears as it is written, or from a pipe."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TextIO

from grader.console.output import WordWrap, make_console, print_wrapped, without_controls
from grader.models.play.engine import PlayProblem
from grader.models.play.session import Session, Shown, answer, is_quit
from rich.console import Console
from rich.text import Text

NOTE_STYLES = ("note",)  # they are about a text, and so go to the other stream
WRAPPED_STYLES = ("prompt", "text")  # broken between words; tables have lines of their own
STYLES = {"prompt": "bold", "note": "dim", "head": "cyan"}


def run_prompt(session: Session, describe: Callable[[Exception], str]) -> None:
    """Answer lines until Control-D or /quit. `describe` says in a sentence what an exception of the learner's code
    was."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  # input() edits lines with it
    while True:
        console = make_console()
        session.width = console.width
        try:
            line = input("> ")
        except KeyboardInterrupt:
            console.print()
            print_wrapped(console, "Control-D or /quit ends.", style="dim")
            continue
        except EOFError:
            console.print()
            return
        if is_quit(line):
            return
        wrap = WordWrap(console.width)
        try:
            for piece in answer(session, line):
                _print(console, wrap, piece)
        except KeyboardInterrupt:
            console.print()
            print_wrapped(console, "Stopped. Enter goes on.", style="dim")
        except PlayProblem as problem:
            _say_problem(console, str(problem))
        except Exception as problem:
            _say_problem(console, describe(problem))


def _print(console: Console, wrap: WordWrap, piece: Shown) -> None:
    if piece.style in NOTE_STYLES:
        print_wrapped(console, piece.text.strip(), style="dim")
        return
    text = wrap.feed(piece.text) if piece.style in WRAPPED_STYLES else piece.text
    console.print(Text(text, style=STYLES.get(piece.style, "")), end="", soft_wrap=True)


def _say_problem(console: Console, sentence: str) -> None:
    end = "" if sentence.endswith((".", "?")) else "."
    print_wrapped(console, f"{sentence[:1].upper()}{sentence[1:]}{end}", style="yellow")


def run_plain(
    session: Session, lines: Iterable[str], out: TextIO, notes: TextIO, report: Callable[[str], None]
) -> bool:
    """Answer every line that is not empty. Returns whether all of them could be answered; `report` gets a sentence for
    each that could not."""
    good = True
    for line in lines:
        if is_quit(line):
            break
        if not line.strip():
            continue
        try:
            _write(answer(session, line), out, notes)
        except PlayProblem as problem:
            report(str(problem))
            good = False
    return good


def _write(pieces: Iterator[Shown], out: TextIO, notes: TextIO) -> None:
    for piece in pieces:
        stream = notes if piece.style in NOTE_STYLES else out
        stream.write(without_controls(piece.text))
        stream.flush()
