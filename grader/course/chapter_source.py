"""A chapter as plain text, whoever wrote it. It stands alone, for a worker is given no more of the kit than it needs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ChapterSource:
    """A chapter as somebody wrote it."""

    name: str  # "ch03_attention"
    text: str
    filename: str  # where the author keeps it, for messages and tracebacks
    sealed: bytes = b""  # in a handout, ours: the code itself, of which `text` then shows next to nothing
    code: bytes = b""  # for a worker, the reference: its code, compiled by this very Python; there is then no text
