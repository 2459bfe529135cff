"""Pieces of code that can be compared: each run of LENGTH tokens becomes a number, and winnowing keeps some of the numbers.

In a run, a variable is the distance to its previous use in the same run: its name does not matter, but its use does. Of WINDOW runs in a row, winnowing
(Schleimer, Wilkerson and Aiken, 2003) keeps the one with the smallest number. So if two people share LENGTH + WINDOW - 1 tokens in a row, they share a piece.
The numbers are the same on every machine.
"""

from __future__ import annotations

import ast
import zlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from grader.classroom.similarity.tokens import VARIABLE, Token, find_definitions, fixed_names, parse_checked, read_tokens

LENGTH = 7
WINDOW = 4
Piece = int
NAMES = 1 << 32  # codes from here on are texts; smaller ones are distances of variables


@dataclass(frozen=True)
class Fingerprints:
    """The pieces of one exercise of one person, or of all other definitions of a chapter (`name` is ""), with the lines of each piece."""

    module: str
    name: str
    pieces: dict[Piece, list[tuple[int, int]]]
    lines: tuple[tuple[int, int], ...]  # the first and the last line of each definition


def fingerprint_chapter(module: str, text: str) -> list[Fingerprints]:
    """The fingerprints of a chapter. SourceProblem if it is not valid Python."""
    tree = parse_checked(text)
    fixed = fixed_names(tree)
    found = []
    for name, nodes in find_definitions(tree).items():
        pieces: dict[Piece, list[tuple[int, int]]] = {}
        for node in nodes:
            for number, first, last in winnow(list(number_runs(read_tokens(node, fixed)))):
                pieces.setdefault(number, []).append((first, last))
        found.append(Fingerprints(module, name, pieces, tuple(map(_lines, nodes))))
    return found


def all_pieces(text: str) -> set[Piece]:
    """Every piece of a text of the course, not only those that winnowing keeps, so that none of them counts wherever it is."""
    tree = parse_checked(text)
    fixed = fixed_names(tree)
    return {number for node in [*tree.body, tree] for number, _, _ in number_runs(read_tokens(node, fixed))}


def number_runs(tokens: Sequence[Token]) -> Iterator[tuple[Piece, int, int]]:
    """The number of each run of tokens, with its first and last line."""
    last: dict[str, int] = {}
    codes = array("Q")
    for place, (text, _) in enumerate(tokens):
        if text[0] == VARIABLE:
            codes.append(place - last.get(text, place))
            last[text] = place
        else:
            codes.append(NAMES | zlib.crc32(text.encode("utf-8", "surrogatepass")))
    for start in range(len(codes) - LENGTH + 1):
        run = array("Q", [0 if place < code < NAMES else code for place, code in enumerate(codes[start : start + LENGTH])])
        data = run.tobytes()
        yield zlib.crc32(data) << 32 | zlib.crc32(data, 1), tokens[start][1], tokens[start + LENGTH - 1][1]


def winnow(runs: Sequence[tuple[Piece, int, int]]) -> Iterator[tuple[Piece, int, int]]:
    """Of each WINDOW runs the one with the smallest number, the first of several; each run once."""
    numbers = [run[0] for run in runs]
    previous = -1
    for start in range(max(1, len(runs) - WINDOW + 1) if runs else 0):
        window = numbers[start : start + WINDOW]
        place = start + window.index(min(window))
        if place != previous:
            yield runs[place]
            previous = place


def _lines(node: ast.stmt) -> tuple[int, int]:
    return min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))]), node.end_lineno or node.lineno
