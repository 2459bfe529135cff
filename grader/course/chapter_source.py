"""The text of a chapter, and a walk through its statements. This module imports nothing of the kit, because a worker
gets as little of it as possible."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class ChapterSource:
    """One chapter: the learner's, the reference's, or a changed reference."""

    name: str  # "ch03_attention"
    text: str
    filename: str  # the author's file name, for messages and tracebacks
    sealed: bool = False  # is it the reference in a handout? messages show only its lines that raise
    code: bytes = b""  # the reference for a worker: compiled by this Python; there is then no text
    replaced: tuple[str, ...] = ()  # names whose definitions come from the reference, in another module


_SCOPES = (
    ast.FunctionDef
    | ast.AsyncFunctionDef
    | ast.Lambda
    | ast.ClassDef
    | ast.ListComp
    | ast.SetComp
    | ast.DictComp
    | ast.GeneratorExp
)


def statements_and_expressions(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Every node of these statements in order, but not the inside of functions, classes and comprehensions."""
    waiting = [iter(body)]
    while waiting:
        node = next(waiting[-1], None)
        if node is None:
            waiting.pop()
            continue
        yield node
        if not isinstance(node, _SCOPES):
            waiting.append(ast.iter_child_nodes(node))
