"""The lines of an exercise as the page shows them: docstrings and empty lines are left out, and lines with common pieces are marked."""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from grader.classroom.similarity.fingerprints import Piece, Run, number_runs
from grader.classroom.similarity.tokens import Token, find_definitions, fixed_names, parse_checked, read_tokens
from grader.course.source import split_lines

LONGEST = 200  # lines of one exercise


@dataclass(frozen=True)
class Line:
    number: int
    text: str
    is_alike: bool
    is_left_out: bool = False  # it stands for a docstring


@dataclass(frozen=True)
class _Definition:
    """One definition in a chapter."""

    tokens: list[Token]
    runs: list[Run]
    first: int  # its lines
    docstrings: frozenset[int]
    lines: list[str]

    def common(self, pieces: Collection[Piece]) -> set[Piece]:
        return {number for number, _, _ in self.runs if number in pieces}

    def mark(self, pieces: Collection[Piece]) -> list[Line]:
        """Its lines, without empty ones."""
        alike = {self.tokens[at][1] for number, start, end in self.runs if number in pieces for at in range(start, end)}
        with_code = {line for _, line in self.tokens}
        shown: list[Line] = []
        for number, code in enumerate(self.lines, start=self.first):
            if number in self.docstrings:
                if number - 1 not in self.docstrings:
                    shown.append(Line(number, code[: len(code) - len(code.lstrip())] + "(docstring)", False, True))
            elif code and number not in with_code and not code.lstrip().startswith("#"):
                shown.append(Line(number, code, bool(shown) and shown[-1].is_alike))  # the end of a statement of several lines
            elif code:
                shown.append(Line(number, code, number in alike))
        return shown


def mark_both(texts: tuple[str, str], name: str, pieces: Collection[Piece]) -> tuple[list[Line], list[Line]]:
    """The lines of this exercise in two people's chapters.

    For "" these are the other definitions with common pieces; those of the second person are in the order of the first one's, as far as they match.
    """
    first, second = ([one for one in _read_definitions(text, name) if name or one.common(pieces)] for text in texts)
    common = [one.common(pieces) for one in first]
    second.sort(key=lambda one: _best_match(one.common(pieces), common))
    return [line for one in first for line in one.mark(pieces)], [line for one in second for line in one.mark(pieces)]


def _best_match(own: set[Piece], others: list[set[Piece]]) -> int:
    return max(range(len(others)), key=lambda place: (len(own & others[place]), -place), default=0)


@lru_cache(maxsize=4096)
def _read_definitions(text: str, name: str) -> list[_Definition]:
    tree, lines = _parse(text)
    fixed = fixed_names(tree)
    found = []
    for node in find_definitions(tree).get(name, []):
        tokens, first = read_tokens(node, fixed), _first_line(node)
        found.append(_Definition(tokens, list(number_runs(tokens)), first, _docstrings(node), lines[first - 1 : node.end_lineno]))
    return found


@lru_cache(maxsize=64)
def _parse(text: str) -> tuple[ast.Module, list[str]]:
    return parse_checked(text), [line.rstrip() for line in split_lines(text)]


def _first_line(node: ast.stmt) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])


def _docstrings(node: ast.stmt) -> frozenset[int]:
    """The lines of the docstrings in a definition, and of other texts that are statements."""
    texts = [part for part in ast.walk(node) if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant) and isinstance(part.value.value, str)]
    return frozenset(number for text in texts for number in range(text.lineno, (text.end_lineno or text.lineno) + 1))
