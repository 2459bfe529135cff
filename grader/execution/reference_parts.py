"""Some of the reference's definitions, compiled without text: what a chapter package contains for names of the
learner's that are replaced."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable
from functools import lru_cache

from grader.course.chapter_source import ChapterSource
from grader.course.code_shape import code_by_name
from grader.course.source import SourceProblem, bound_names
from grader.execution.chapter_package import compile_without_text, replacement_module, tree_of, without_docstrings
from grader.execution.names_used import NamesUsed, closure, names_used


@lru_cache(maxsize=64)
def reference_names(reference: ChapterSource) -> NamesUsed:
    """The names that the definitions of a chapter of the reference use."""
    return names_used(ast.unparse(tree_of(reference)))


def replaceable(reference: ChapterSource, names: Iterable[str], without: Collection[str]) -> tuple[str, ...]:
    """Those of these names that can be replaced: the reference defines them, and they do not use its definitions of the
    names in `without`."""
    known = reference_names(reference)
    return tuple(
        sorted(name for name in set(names) if name in known.statements and closure(known, [name]).isdisjoint(without))
    )


@lru_cache(maxsize=256)
def reference_definitions(reference: ChapterSource, names: tuple[str, ...]) -> ChapterSource:
    """The module with these definitions of the reference and everything that they use in their chapter; the others are
    not in it."""
    wanted = closure(reference_names(reference), names)
    body = [
        node
        for node in tree_of(reference).body
        if isinstance(node, ast.Import | ast.ImportFrom) or bound_names(node) & wanted
    ]
    return compile_without_text(replacement_module(reference.name), ast.Module(body, []))


def is_reference_definition(text: str, reference: ChapterSource, name: str, exercises: frozenset[str]) -> bool:
    """Whether `text` defines `name` as the reference does, comments and docstrings aside, with the same helpers. Other
    exercises are not compared."""
    try:
        own, theirs = _code_of_text(text), _code_of_reference(reference)
        used = names_used(text)
    except (SourceProblem, SyntaxError, RecursionError, ValueError, MemoryError, SystemError, OverflowError):
        return False
    return name in own and all(own[word] == theirs.get(word) for word in closure(used, [name], without=exercises))


@lru_cache(maxsize=32)
def _code_of_text(text: str) -> dict[str, str]:
    return code_by_name(without_docstrings(ast.parse(text)))


@lru_cache(maxsize=32)
def _code_of_reference(reference: ChapterSource) -> dict[str, str]:
    return code_by_name(tree_of(reference))
