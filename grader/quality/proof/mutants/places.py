"""Positions of a syntax tree's nodes in the text, and a change at one of these positions."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from grader.course.source import split_lines

Placed = ast.expr | ast.stmt

ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant, ast.List, ast.Dict, ast.Set, ast.ListComp, ast.SetComp, ast.DictComp, ast.JoinedStr)


@dataclass(frozen=True)
class Change:
    """Replace the text from `start` up to `end` by `new`."""

    start: int
    end: int
    new: str


class Places:
    """One exercise's text and its tree."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = ast.parse(text)
        self._lines = split_lines(text)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def at(self, line: int, column: int) -> int:
        """The index of a character in the text; Python counts columns in bytes."""
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def span(self, node: Placed) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno, node.end_col_offset)

    def source(self, node: Placed) -> str:
        start, end = self.span(node)
        return self.text[start:end]

    def tight(self, node: Placed) -> str:
        """The source of the node, in parentheses where operator precedence could otherwise change its meaning."""
        source = self.source(node)
        return source if isinstance(node, ATOMS) or in_parentheses(source) else f"({source})"

    def is_enclosed(self, node: Placed) -> bool:
        """Is the node already in parentheses?"""
        start, end = self.span(node)
        return self.text[start - 1 : start] == "(" and self.text[end : end + 1] == ")"

    def change(self, node: Placed, new: str) -> Change:
        return Change(*self.span(node), new)


def in_parentheses(source: str) -> bool:
    """Does the first parenthesis close at the very end?"""
    if not (source.startswith("(") and source.endswith(")")):
        return False
    try:
        ast.parse(source[1:-1].strip(), mode="eval")
    except SyntaxError:
        return False
    return True
