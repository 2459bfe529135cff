"""Replaces some of a learner's definitions by the reference's, when its chapter is compiled.

The reference's definitions are in another module of the chapter package, without text, and use each other there
(reference_parts.py makes it). After each statement of the learner's module that binds a replaced name, the name is
bound to the reference's definition. So everything that is defined later uses that one: a class that inherits, an alias,
a decorator, a default argument. The learner's own lines keep their numbers.
"""

from __future__ import annotations

import ast

from grader.course.source_check import statements_and_expressions


def replacement_module(chapter: str) -> str:
    """The name of the module with the reference's definitions for this chapter."""
    return f"_{chapter}"


def is_replacement(module: str) -> bool:
    return module.startswith("_")


def bind_replacements(tree: ast.Module, chapter: str, names: tuple[str, ...]) -> ast.Module:
    """The module with these names bound to the reference's definitions."""
    body: list[ast.stmt] = []
    bound: set[str] = set()
    first = next((place for place, node in enumerate(tree.body) if not _is_heading(node)), len(tree.body))
    for node in tree.body:
        body.append(node)
        here = set(names) & _bound_names(node, names)
        bound |= here
        body += [_import_replacement(chapter, name, node) for name in names if name in here]
    missing = [name for name in names if name not in bound]
    heading = tree.body[first - 1] if first else None
    body[first:first] = [_import_replacement(chapter, name, heading) for name in missing]
    return ast.Module(body, tree.type_ignores)


def _is_heading(node: ast.stmt) -> bool:
    """A docstring, or an import from `__future__`: nothing may come before it."""
    docstring = (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )
    return docstring or (isinstance(node, ast.ImportFrom) and node.module == "__future__")


def _import_replacement(chapter: str, name: str, after: ast.stmt | None) -> ast.stmt:
    node = ast.ImportFrom(replacement_module(chapter), [ast.alias(name)], 1)
    if after is None:
        node.lineno = node.end_lineno = 1
        node.col_offset = node.end_col_offset = 0
        return ast.fix_missing_locations(node)
    return ast.fix_missing_locations(ast.copy_location(node, after))


def _bound_names(node: ast.stmt, names: tuple[str, ...]) -> set[str]:
    """The names that a statement of the top level binds, also in its branches; `import *` may bind any of `names`."""
    found: set[str] = set()
    for part in statements_and_expressions([node]):
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(part.name)
        elif isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load):
            found.add(part.id)
        elif isinstance(part, ast.alias):
            found |= set(names) if part.name == "*" else {part.asname or part.name.partition(".")[0]}
        elif isinstance(part, ast.ExceptHandler) and part.name:
            found.add(part.name)
    return found
