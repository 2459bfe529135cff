"""`headway play` without a terminal: every line of the input is a beginning or a command, and the texts go to the
output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TextIO

from grader.models.play.commands import answer, is_quit
from grader.models.play.session import Session, Shown
from grader.models.play.settings import PlayProblem

NOTES = ("note",)  # styles that are about a text, and so go to the other stream


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
            write(answer(session, line), out, notes)
        except PlayProblem as problem:
            report(str(problem))
            good = False
    return good


def write(pieces: Iterator[Shown], out: TextIO, notes: TextIO) -> None:
    for piece in pieces:
        stream = notes if piece.style in NOTES else out
        stream.write(harmless(piece.text))
        stream.flush()


def harmless(text: str) -> str:
    """The text with a replacement character for each control character, which a terminal might obey."""
    return "".join(c if c in "\n\t" or not (ord(c) < 32 or 127 <= ord(c) < 160) else "\ufffd" for c in text)
