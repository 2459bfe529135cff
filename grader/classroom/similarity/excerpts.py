"""The lines of an exercise as the page shows them, with common pieces marked, without docstrings and empty lines."""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from grader.classroom.similarity.pieces import Piece, Run, number_runs
from grader.classroom.similarity.tokens import Token, find_definitions, fixed_names, read_tokens
from grader.course.source import parse, split_lines

MAX_LINES = 200  # of one exercise


@dataclass(frozen=True)
class Line:
    number: int
    text: str
    is_alike: bool


@dataclass(frozen=True)
class _Definition:
    """One definition in a chapter."""

    tokens: list[Token]
    runs: list[Run]
    first: int  # line
    docstrings: frozenset[int]  # lines
    lines: list[str]

    def common(self, pieces: Collection[Piece]) -> set[Piece]:
        return {number for number, _, _ in self.runs if number in pieces}

    def mark(self, pieces: Collection[Piece]) -> list[Line]:
        """Its lines, without docstrings and empty ones."""
        runs = [(start, end) for number, start, end in self.runs if number in pieces]
        alike = {self.tokens[place][1] for start, end in runs for place in range(start, end)}
        with_code = {line for _, line in self.tokens}
        shown: list[Line] = []
        for number, code in enumerate(self.lines, start=self.first):
            if number in self.docstrings:
                continue
            if code and number not in with_code and not code.lstrip().startswith("#"):
                shown.append(Line(number, code, bool(shown) and shown[-1].is_alike))  # the end of a longer statement
            elif code:
                shown.append(Line(number, code, number in alike))
        return shown


def mark_both(texts: tuple[str, str], name: str, pieces: Collection[Piece]) -> tuple[list[Line], list[Line]]:
    """The lines of this exercise in two people's chapters.

    For "" these are the other definitions with common pieces.
    """
    both = [[one for one in _read(text, name) if name or one.common(pieces)] for text in texts]
    left, right = ([line for one in definitions for line in one.mark(pieces)] for definitions in both)
    return left, right


@lru_cache(maxsize=4096)
def _read(text: str, name: str) -> list[_Definition]:
    tree, lines = parse(text), [line.rstrip() for line in split_lines(text)]
    fixed = fixed_names(tree)
    found = []
    for node in find_definitions(tree).get(name, []):
        decorators = [decorator.lineno for decorator in getattr(node, "decorator_list", ())]
        tokens, first = read_tokens(node, fixed), min([node.lineno, *decorators])
        docstrings: set[int] = set()
        for part in ast.walk(node):
            match part:
                case ast.Expr(value=ast.Constant(value=str()) as literal):
                    docstrings |= {*range(literal.lineno, (literal.end_lineno or literal.lineno) + 1)}
        own = lines[first - 1 : node.end_lineno]
        found.append(_Definition(tokens, list(number_runs(tokens)), first, frozenset(docstrings), own))
    return found
