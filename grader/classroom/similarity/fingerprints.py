"""Pieces of code that can be compared: each run of LENGTH tokens becomes a number, and winnowing keeps some of the numbers.

In a run, a variable is the distance to its previous use in the same run: its name does not matter, but its use does. Of WINDOW runs in a row, winnowing
(Schleimer, Wilkerson and Aiken, 2003) keeps the one with the smallest number. So if two people share LENGTH + WINDOW - 1 tokens in a row, they share a piece.
The numbers are the same on every machine.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from struct import Struct

from grader.classroom.similarity.tokens import VARIABLE, Token, find_definitions, fixed_names, parse_checked, read_tokens

LENGTH = 7
WINDOW = 4
Piece = int
Run = tuple[Piece, int, int]  # its number, and the places of its tokens: from, and up to but not including
NAMES = 1 << 32  # codes from here on are texts; smaller ones are distances of variables
_pack = Struct(f"<{LENGTH}Q").pack


def chapter_pieces(text: str) -> dict[str, set[Piece]]:
    """The pieces of each exercise that a chapter defines, and under "" those of its other definitions. SourceProblem if it is not valid Python."""
    tree = parse_checked(text)
    fixed = fixed_names(tree)
    found = {}
    for name, nodes in find_definitions(tree).items():
        runs = [winnow(list(number_runs(read_tokens(node, fixed)))) for node in nodes]
        found[name] = {number for part in runs for number, _, _ in part}
    return found


def all_pieces(text: str) -> set[Piece]:
    """Every piece of a text of the course, not only those that winnowing keeps, so that none of them counts wherever it is."""
    tree = parse_checked(text)
    fixed = fixed_names(tree)
    return {number for node in [*tree.body, tree] for number, _, _ in number_runs(read_tokens(node, fixed))}


def number_runs(tokens: Sequence[Token]) -> Iterator[Run]:
    """Each run of tokens with its number."""
    last: dict[str, int] = {}
    codes: list[int] = []
    for place, (text, _) in enumerate(tokens):
        if text[0] == VARIABLE:
            codes.append(place - last.get(text, place))
            last[text] = place
        else:
            codes.append(NAMES | zlib.crc32(text.encode("utf-8", "surrogatepass")))
    for start in range(len(codes) - LENGTH + 1):
        run = [0 if place < code < NAMES else code for place, code in enumerate(codes[start : start + LENGTH])]
        yield zlib.crc32(_pack(*run)), start, start + LENGTH


def winnow(runs: Sequence[Run]) -> Iterator[Run]:
    """Of each WINDOW runs the one with the smallest number, the first of several; each run once."""
    numbers = [run[0] for run in runs]
    previous = -1
    for start in range(max(1, len(runs) - WINDOW + 1) if runs else 0):
        window = numbers[start : start + WINDOW]
        place = start + window.index(min(window))
        if place != previous:
            yield runs[place]
            previous = place
