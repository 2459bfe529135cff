"""The lines of an exercise as the page shows them: its docstrings are left out, and the lines with common pieces are marked."""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from grader.classroom.similarity.fingerprints import Piece, number_runs
from grader.classroom.similarity.tokens import find_definitions, fixed_names, parse_checked, read_tokens
from grader.course.source import split_lines

LONGEST = 200  # lines of one exercise


@dataclass(frozen=True)
class Line:
    number: int
    text: str
    is_alike: bool
    is_left_out: bool = False  # it stands for a docstring


def mark_lines(text: str, name: str, pieces: Collection[Piece]) -> list[Line]:
    """The lines of this exercise ("" for all other definitions) in a chapter's text."""
    tree, lines = _parse(text)
    fixed = fixed_names(tree)
    shown: list[Line] = []
    for node in find_definitions(tree).get(name, []):
        tokens = read_tokens(node, fixed)
        alike = {tokens[place][1] for number, start, end in number_runs(tokens) if number in pieces for place in range(start, end)}
        with_code = {line for _, line in tokens}
        docstrings = _docstrings(node)
        for number in range(_first_line(node), (node.end_lineno or node.lineno) + 1):
            code = lines[number - 1].rstrip() if number <= len(lines) else ""
            if number in docstrings:
                if number - 1 not in docstrings:
                    shown.append(Line(number, code[: len(code) - len(code.lstrip())] + "(docstring)", False, True))
            elif number not in with_code and code and not code.lstrip().startswith("#"):
                shown.append(Line(number, code, bool(shown) and shown[-1].is_alike))  # the end of a statement of several lines
            else:
                shown.append(Line(number, code, number in alike))
    return shown


@lru_cache(maxsize=64)
def _parse(text: str) -> tuple[ast.Module, list[str]]:
    return parse_checked(text), split_lines(text)


def _first_line(node: ast.stmt) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])


def _docstrings(node: ast.stmt) -> set[int]:
    """The lines of the docstrings in a definition."""
    found: set[int] = set()
    for part in ast.walk(node):
        body = getattr(part, "body", None)
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and isinstance(body, list) and len(body) > 1:
            first = body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
                found |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return found
