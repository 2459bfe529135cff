"""Reads the source of a test: which variables and calls an assertion looks at, and what a variable was last bound to."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from grader.execution.proxy import Handle
from torch import Tensor

ASSERTIONS = frozenset({"close", "same", "holds", "shaped", "refuses"})  # their first argument is what they look at


@lru_cache(maxsize=64)
def _tree(file: str) -> ast.Module | None:
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return None


@lru_cache(maxsize=192)
def _nodes(file: str, kind: Any) -> list[Any]:
    """Those of the file; kept, because a suite is looked into for each failure."""
    tree = _tree(file)
    return [node for node in ast.walk(tree) if isinstance(node, kind)] if tree else []


def statement_at(file: str, line: int) -> ast.stmt | None:
    """The smallest statement that contains the line."""
    around = [node for node in _nodes(file, ast.stmt) if node.lineno <= line <= (node.end_lineno or node.lineno)]
    return min(around, key=lambda node: (node.end_lineno or node.lineno) - node.lineno, default=None)


def is_in_comprehension(file: str, expression: ast.expr) -> bool:
    first, last = expression.lineno, expression.end_lineno or expression.lineno
    loops = _nodes(file, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp)
    return any(loop.lineno <= first and last <= (loop.end_lineno or loop.lineno) for loop in loops)


def looked_at_expressions(statement: ast.stmt) -> list[ast.expr]:
    """What an assertion looks at: its first argument; else all expressions of the statement."""
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ASSERTIONS]
    if calls and calls[0].args:
        return [calls[0].args[0]]
    return [node for node in ast.iter_child_nodes(statement) if isinstance(node, ast.expr)]


def outermost(expression: ast.expr) -> Iterator[ast.expr]:
    """The largest parts of an expression that can be looked up: variables with their indices and attributes, and calls of the implementation."""
    if isinstance(expression, ast.Name | ast.Subscript | ast.Attribute):
        yield expression
        return
    if isinstance(expression, ast.Call):
        yield from _outermost_of_call(expression)
        return
    for child in ast.iter_child_nodes(expression):
        if isinstance(child, ast.expr):
            yield from outermost(child)
        elif isinstance(child, ast.comprehension):
            yield from outermost(child.iter)


def _outermost_of_call(call: ast.Call) -> Iterator[ast.expr]:
    """A call may be one of the implementation: it is looked up by its line. A method's object and the arguments are looked up too."""
    yield call
    if isinstance(call.func, ast.Attribute):
        yield from outermost(call.func.value)
    for argument in [*call.args, *(keyword.value for keyword in call.keywords)]:
        yield from outermost(argument)


def evaluate(expression: ast.expr, variables: dict[str, Any]) -> Any:
    """The value of a variable with constant or variable indices and attributes; None if it is anything else."""
    try:
        return _value(expression, variables)
    except Exception:
        return None


def _value(expression: ast.expr, variables: dict[str, Any]) -> Any:
    match expression:
        case ast.Name(id=name):
            return variables[name]
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, variables)
        case ast.Subscript(value=of, slice=index):
            found = _value(of, variables)
            return found[_value(index, variables)] if isinstance(found, list | tuple | dict | Tensor) else None
        case ast.Attribute(value=of, attr=name):
            found = _value(of, variables)
            return vars(found)[name] if not isinstance(found, Handle | Tensor) else None
    raise ValueError("not a plain expression")


def last_binding(file: str, line: int, name: str) -> ast.expr | None:
    """The expression that the name was last bound to, above this line, in the same function: by an assignment or by a loop."""
    around = [node for node in _nodes(file, ast.FunctionDef) if node.lineno <= line <= (node.end_lineno or node.lineno)]
    if not around:
        return None
    found: ast.expr | None = None
    for node in sorted((node for node in ast.walk(around[-1]) if hasattr(node, "lineno")), key=lambda node: node.lineno):
        match node:
            case ast.Assign(targets=targets, value=value) if node.lineno < line and any(_binds(target, name) for target in targets):
                found = _own_part(targets[0], value, name)
            case ast.AugAssign(target=target, value=value) | ast.AnnAssign(target=target, value=ast.expr() as value) if node.lineno < line and _binds(target, name):
                found = value
            case ast.For(target=target, iter=value) if node.lineno < line and _binds(target, name):
                found = _own_part(target, value.args, name) if _is_zip(value) and isinstance(value, ast.Call) else value
    return found


def _binds(target: ast.expr, name: str) -> bool:
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(target))


def _is_zip(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "zip"


def _own_part(target: ast.expr, value: Any, name: str) -> Any:
    """Of `a, b = f(x), g(x)`, and of `for a, b in zip(first, second)`, the part that this name is bound to."""
    parts = value if isinstance(value, list) else value.elts if isinstance(value, ast.Tuple) else None
    if isinstance(target, ast.Tuple) and parts is not None and len(parts) == len(target.elts):
        for element, part in zip(target.elts, parts):
            if _binds(element, name):
                return part
    return ast.Tuple(parts, ast.Load(), lineno=parts[0].lineno, col_offset=0) if isinstance(value, list) and parts else value
