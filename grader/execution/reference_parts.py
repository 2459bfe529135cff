"""Some of the reference's definitions, compiled without text: what a chapter package contains for names of the learner's that are replaced."""

from __future__ import annotations

import ast
import marshal
from collections.abc import Iterable
from functools import lru_cache

from grader.course.chapter_source import ChapterSource
from grader.course.sealed.format import module_bytes, read_tree
from grader.course.source import bound_names
from grader.execution.names_used import NamesUsed, closure, names_used
from grader.execution.replacing import replacement_module


@lru_cache(maxsize=64)
def reference_names(reference: ChapterSource) -> NamesUsed:
    """The names that the definitions of a chapter of the reference use."""
    return names_used(ast.unparse(read_tree(reference.sealed or module_bytes(reference.text))))


def replaceable(reference: ChapterSource, names: Iterable[str], judged: str) -> tuple[str, ...]:
    """Those of these names that can be replaced while `judged` is judged: the reference defines them, and without its own `judged`."""
    known = reference_names(reference)
    return tuple(sorted(name for name in set(names) if name in known.statements and judged not in closure(known, [name])))


@lru_cache(maxsize=256)
def reference_definitions(reference: ChapterSource, names: tuple[str, ...]) -> ChapterSource:
    """The module with these definitions of the reference and everything that they use in their chapter; the others are not in it."""
    wanted = closure(reference_names(reference), names)
    tree = read_tree(reference.sealed or module_bytes(reference.text))
    body = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom) or bound_names(node) & wanted]
    name = replacement_module(reference.name)
    code = compile(ast.Module(body, []), f"<{name}>", "exec", dont_inherit=True)
    return ChapterSource(name, "", f"<{name}>", code=marshal.dumps(code))
