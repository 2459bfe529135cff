"""Finds the global names that each definition of a chapter uses, by Python's own rules of scope: a parameter `dropout` is not the exercise `dropout`."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from grader.course.source import Definition, bound_names, parse


@dataclass(frozen=True)
class NamesUsed:
    statements: dict[str, ast.stmt]  # name → the last top-level statement of the module that binds it
    imported: dict[str, str]  # name here → its name in the module that it is imported from
    used: dict[ast.stmt, frozenset[str]]  # by each top-level statement when its code runs; "a.softmax" counts as softmax where `a` is imported
    run_at_import: frozenset[str]  # used by statements that define nothing, and by decorators: this code runs when the chapter is imported
    needed_at_import: frozenset[str]  # without these names the chapter does not import


def closure(names: NamesUsed, roots: Iterable[str]) -> set[str]:
    """The names of this module that these names use, directly or through others, and the names themselves."""
    found = {name for name in roots if name in names.statements}
    waiting, seen = list(found), set()
    while waiting:
        statement = names.statements[waiting.pop()]
        if statement not in seen:  # one statement may define thousands of names
            seen.add(statement)
            new = (names.used[statement] & names.statements.keys()) - found
            found |= new
            waiting += new
    return found


def code_of(text: str, exercise: str) -> list[str]:
    """The code that decides how an exercise behaves, without comments: its definition, all that it uses in its chapter, and what runs at import.

    SourceProblem if the text cannot be read.
    """
    names = names_used(text)
    used = closure(names, {exercise, *names.run_at_import})
    definitions = set(names.statements.values())
    return [ast.dump(node) for node in parse(text).body if node not in definitions or used & {n for n, s in names.statements.items() if s is node}]


@lru_cache(maxsize=64)
def names_used(text: str) -> NamesUsed:
    """The names that this module's definitions use. SourceProblem if the text cannot be read."""
    tree = parse(text)
    try:
        tables = _tables(symtable.symtable(text, "the file", "exec"))
    except (SyntaxError, RecursionError, ValueError, MemoryError, SystemError, OverflowError):  # it parses and does not compile: `return` outside a function
        tables = {}
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    aliases = [alias for node in nodes for alias in node.names]
    renamed = {alias.asname: alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names if alias.asname}
    modules = {alias.asname or alias.name.partition(".")[0] for alias in aliases}
    used = {node: frozenset(_used(node, tables, modules)) for node in tree.body}
    at_import = frozenset().union(*(_run_at_import(node) for node in tree.body)) if tree.body else frozenset()
    needed = at_import.union(*(_needed_at_import(node, tables) for node in tree.body if isinstance(node, Definition)))
    statements = {name: node for node in tree.body for name in bound_names(node)}
    return NamesUsed(statements, renamed, used, at_import, needed)


_Tables = dict[tuple[str, int], list[symtable.SymbolTable]]


def _tables(top: symtable.SymbolTable) -> _Tables:
    """The scope of each top-level function or class, by its name and line."""
    found: _Tables = {}
    for table in top.get_children():
        found.setdefault((table.get_name(), table.get_lineno()), []).append(table)
    return found


def _used(node: ast.stmt, tables: _Tables, modules: set[str]) -> set[str]:
    attributes = {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id in modules}
    own = tables.get((node.name, node.lineno)) if isinstance(node, Definition) else None
    if own is None or not isinstance(node, Definition):
        return attributes | _loaded([node])
    words = attributes | _loaded(_evaluated_at_definition(node))
    waiting = list(own)
    while waiting:
        table = waiting.pop()
        words |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global() and symbol.is_referenced()}
        waiting += table.get_children()
    return words


def _evaluated_at_definition(node: ast.stmt) -> list[ast.AST]:
    """The expressions that are evaluated when a function or class is defined: decorators, defaults, base classes."""
    if isinstance(node, ast.ClassDef):
        return [*node.decorator_list, *node.bases, *node.keywords]
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return [*node.decorator_list, *node.args.defaults, *(default for default in node.args.kw_defaults if default)]
    return []


def _loaded(nodes: Iterable[ast.AST]) -> set[str]:
    return {part.id for node in nodes for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}


def _run_at_import(node: ast.stmt) -> set[str]:
    if isinstance(node, Definition):
        return _loaded(node.decorator_list)
    guard = isinstance(node, ast.If) and "__name__" in _loaded([node.test])  # `if __name__ == "__main__":` does not run when the chapter is imported
    return set() if guard else _loaded([node])


def _needed_at_import(node: ast.stmt, tables: _Tables) -> set[str]:
    words = _loaded(_evaluated_at_definition(node))
    waiting = list(tables.get((node.name, node.lineno), ())) if isinstance(node, ast.ClassDef) else []
    while waiting:
        table = waiting.pop()
        if table.get_type() == "class":
            words |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global() and symbol.is_referenced()}
            waiting += table.get_children()
    return words
