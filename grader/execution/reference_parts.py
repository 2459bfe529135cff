"""Some of the reference's definitions, compiled without text: what a chapter package contains for names of the learner's that are replaced."""

from __future__ import annotations

import ast
import marshal
from collections.abc import Collection, Iterable
from functools import lru_cache

from grader.course.chapter_source import ChapterSource
from grader.course.sealed.format import module_bytes, read_tree, without_docstrings
from grader.course.source import SourceProblem, bound_names
from grader.execution.names_used import NamesUsed, closure, names_used
from grader.execution.replacing import replacement_module


@lru_cache(maxsize=64)
def reference_names(reference: ChapterSource) -> NamesUsed:
    """The names that the definitions of a chapter of the reference use."""
    return names_used(ast.unparse(read_tree(reference.sealed or module_bytes(reference.text))))


def replaceable(reference: ChapterSource, names: Iterable[str], without: Collection[str]) -> tuple[str, ...]:
    """Those of these names that can be replaced: the reference defines them, and they do not use its definitions of the names in `without`."""
    known = reference_names(reference)
    return tuple(sorted(name for name in set(names) if name in known.statements and closure(known, [name]).isdisjoint(without)))


@lru_cache(maxsize=256)
def reference_definitions(reference: ChapterSource, names: tuple[str, ...]) -> ChapterSource:
    """The module with these definitions of the reference and everything that they use in their chapter; the others are not in it."""
    wanted = closure(reference_names(reference), names)
    tree = read_tree(reference.sealed or module_bytes(reference.text))
    body = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom) or bound_names(node) & wanted]
    name = replacement_module(reference.name)
    code = compile(ast.Module(body, []), f"<{name}>", "exec", dont_inherit=True)
    return ChapterSource(name, "", f"<{name}>", code=marshal.dumps(code))


def is_reference_definition(text: str, reference: ChapterSource, name: str, exercises: frozenset[str]) -> bool:
    """Whether `text` defines `name` as the reference does, comments and docstrings aside, with the same helpers. Other exercises are not compared."""
    try:
        own, theirs = _dumps(text), _dumps_of_reference(reference)
        used = names_used(text)
    except (SourceProblem, SyntaxError, RecursionError, ValueError, MemoryError, SystemError, OverflowError):
        return False
    waiting, seen = [name], set()
    while waiting:
        word = waiting.pop()
        seen.add(word)
        if word not in own or own[word] != theirs.get(word):
            return False
        waiting += (used.used[used.statements[word]] & own.keys()) - seen - exercises
    return True


@lru_cache(maxsize=32)
def _dumps(text: str) -> dict[str, str]:
    body = without_docstrings(ast.parse(text)).body
    return {name: ast.dump(node) for node in body for name in bound_names(node)}


@lru_cache(maxsize=32)
def _dumps_of_reference(reference: ChapterSource) -> dict[str, str]:
    body = read_tree(reference.sealed or module_bytes(reference.text)).body
    return {name: ast.dump(node) for node in body for name in bound_names(node)}
