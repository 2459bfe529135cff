"""Breaks a text between words while it is still being written."""

from __future__ import annotations

import re

from rich.cells import cell_len

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
