"""The text of a chapter, its statements, and the names that they bind. This module imports nothing of the kit, because
a worker gets as little of it as possible."""

from __future__ import annotations

import ast
import copy
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


# ---- the statements that run in a module's own scope, and the names that they bind

# Python runs the statements below `if`, `try`, `with`, `match` and loops in the scope of the module too: a function
# that is defined there is the module's, as one at the left margin is.

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Bindings = dict[str, list[ast.stmt]]  # name → each statement that may have bound it when the module is imported


def branches_of(node: ast.stmt) -> list[list[ast.stmt]]:
    """The blocks of a compound statement: one of them runs, as far as its text says. Empty for any other statement."""
    match node:
        case ast.If(test=test, body=body, orelse=orelse) | ast.While(test=test, body=body, orelse=orelse):
            value = _value_on_import(test)
            return [body, orelse] if value is None else [body if value else orelse]
        case ast.For(body=body, orelse=orelse) | ast.AsyncFor(body=body, orelse=orelse):
            return [[*body, *orelse], orelse]
        case ast.With(body=body) | ast.AsyncWith(body=body):
            return [body]
        case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=last) | ast.TryStar(
            body=body, handlers=handlers, orelse=orelse, finalbody=last
        ):
            return [[*body, *orelse, *last], *([*handler.body, *last] for handler in handlers)]
        case ast.Match(cases=cases):
            return [*(case.body for case in cases), []]
    return []


def _value_on_import(test: ast.expr) -> bool | None:
    """The truth of a condition while the module is imported; None where the text does not say it."""
    match test:
        case ast.Constant(value=value):
            return bool(value)
        case ast.Compare(left=ast.Name(id="__name__"), ops=[ast.Eq()], comparators=[ast.Constant(value="__main__")]):
            return False
        case ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"):
            return False
    return None


def scope_statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """These statements and those in their branches, in order, each once; nothing inside functions and classes."""
    for node in body:
        yield node
        inner = dict.fromkeys(statement for branch in branches_of(node) for statement in branch)
        yield from scope_statements(inner)


def without_blocks(node: ast.stmt) -> ast.stmt:
    """A compound statement without the statements below it; any other statement as it is."""
    if not branches_of(node):
        return node
    head = copy.copy(node)
    for field, value in ast.iter_fields(node):
        if field in ("body", "orelse", "finalbody"):
            setattr(head, field, [])
        elif field in ("handlers", "cases"):
            setattr(head, field, [copy.copy(part) for part in value])
            for part in getattr(head, field):
                part.body = []
    return head


def bound_names(node: ast.stmt) -> set[str]:
    """The names that a statement itself defines or assigns, without those below it (imports do not count)."""
    if isinstance(node, Definition):
        return {node.name}
    if isinstance(node, ast.AugAssign) or (isinstance(node, ast.AnnAssign) and node.value is None):
        return set()
    parts = list(statements_and_expressions([without_blocks(node)]))
    names = {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    return names | {part.name for part in parts if isinstance(part, ast.MatchAs | ast.MatchStar) and part.name}


def imported_names(node: ast.stmt) -> list[str]:
    """The names that an import binds; empty for any other statement."""
    if not isinstance(node, ast.Import | ast.ImportFrom):
        return []
    return [alias.asname or alias.name.partition(".")[0] for alias in node.names]


def bindings(tree: ast.Module) -> Bindings:
    """Of each name that the module binds, the statements of which one has bound it at the end of the import.

    A statement replaces what is bound before it. One in a branch that may not run is an alternative to that.
    """
    return {name: found.statements for name, found in _bind(tree.body).items()}


class _Bound:
    """What a block binds one name to; `is_certain`: whether it does so in each case."""

    def __init__(self, statements: list[ast.stmt], is_certain: bool) -> None:
        self.statements, self.is_certain = statements, is_certain


def _bind(block: list[ast.stmt]) -> dict[str, _Bound]:
    found: dict[str, _Bound] = {}
    for node in block:
        for name in (*bound_names(node), *imported_names(node)):
            found[name] = _Bound([node], is_certain=True)
        if isinstance(node, ast.Delete):
            for target in node.targets:
                found.pop(getattr(target, "id", ""), None)
        # a block that ends with `raise` ends the import
        inner = [_bind(branch) for branch in branches_of(node) if not (branch and isinstance(branch[-1], ast.Raise))]
        for name in dict.fromkeys(name for branch in inner for name in branch):
            some = [branch[name] for branch in inner if name in branch]
            statements = [statement for one in some for statement in one.statements]
            if len(some) == len(inner) and all(one.is_certain for one in some):
                found[name] = _Bound(statements, is_certain=True)
            else:
                found.setdefault(name, _Bound([], is_certain=False)).statements.extend(statements)
    return found


def hidden_binding(tree: ast.Module, name: str) -> ast.stmt | None:
    """The statement that may bind this name in a way that no syntax shows, as `globals()[name] = ...`: the last one
    that has the name as a string or as a keyword, in a module that reaches for its own names; or None."""
    if not any(map(_reaches_own_names, ast.walk(tree))):
        return None
    statements = [node for node in scope_statements(tree.body) if name in _words(without_blocks(node))]
    return statements[-1] if statements else None


def _reaches_own_names(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="globals" | "locals" | "vars"), args=[]) | ast.Call(func=ast.Name(id="exec")):
            return True
        case ast.Attribute(value=ast.Name(id="sys"), attr="modules"):
            return True
    return False


def _words(statement: ast.stmt) -> set[str]:
    parts = list(ast.walk(statement))
    strings = {part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)}
    return strings | {part.arg for part in parts if isinstance(part, ast.keyword) and part.arg}
