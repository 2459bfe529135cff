"""Recognises expressions and statements without effects: constants, tables of them, names of types."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from grader.course.source import bound_names, imported_names

BUILTINS = frozenset({  # without effects on other code
    "abs", "all", "any", "bool", "bytearray", "bytes", "callable", "chr", "classmethod", "dict", "divmod", "enumerate", "filter", "float", "format",
    "frozenset", "getattr", "hasattr", "int", "isinstance", "issubclass", "iter", "len", "list", "map", "max", "min", "next", "object", "ord", "pow", "print",
    "property", "range", "repr", "reversed", "round", "set", "setattr", "slice", "sorted", "staticmethod", "str", "sum", "super", "tuple", "type", "zip",
    "NotImplemented", "Ellipsis", "Exception", "ArithmeticError", "AssertionError", "AttributeError", "IndexError", "KeyError", "LookupError",
    "NotImplementedError", "OverflowError", "RuntimeError", "StopIteration", "TypeError", "ValueError", "ZeroDivisionError",
})  # fmt: skip
CONSTANTS = frozenset({"math.inf", "math.pi", "math.e", "torch.float32", "torch.float64", "torch.long", "torch.int64", "torch.bool"})
_FUNCTIONS = frozenset({"float", "int", "frozenset", "tuple", "range", "math.sqrt", "math.log", "math.exp", "re.compile"})  # give unchangeable values


def is_constant(node: ast.expr, constants: Collection[str] = ()) -> bool:
    """Whether an expression has an unchangeable value, made of literals and of these names: a number, a text, None, or a tuple of such."""
    match node:
        case ast.Constant():
            return True
        case ast.UnaryOp():
            return is_constant(node.operand, constants)
        case ast.BinOp():
            return is_constant(node.left, constants) and is_constant(node.right, constants)
        case ast.Tuple():
            return all(is_constant(part, constants) for part in node.elts)
        case ast.Name():
            return node.id in constants
        case ast.Attribute():
            return dotted_name(node) in CONSTANTS
        case ast.Call():
            parts = [part.elts if isinstance(part, ast.Set | ast.List) else [part] for part in node.args]
            return dotted_name(node.func) in _FUNCTIONS and not node.keywords and all(is_constant(part, constants) for each in parts for part in each)
    return False


def is_literal(node: ast.expr) -> bool:
    """Whether an expression is a constant that is written out: to evaluate it cannot fail."""
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant) and type(node.operand.value) in (int, float)
    return all(map(is_literal, node.elts)) if isinstance(node, ast.Tuple) else isinstance(node, ast.Constant)


def is_table(node: ast.expr, constants: Collection[str] = ()) -> bool:
    """Whether this is a dict, list, set or tuple with nothing in it that could be changed: constants, functions and classes."""
    match node:
        case ast.Dict():
            return all(key is not None and is_constant(key, constants) for key in node.keys) and all(_is_entry(value, constants) for value in node.values)
        case ast.List() | ast.Set() | ast.Tuple():
            return all(_is_entry(part, constants) for part in node.elts)
    return False


def _is_entry(node: ast.expr, constants: Collection[str]) -> bool:
    inside = isinstance(node, ast.Tuple) and is_table(node, constants)
    if isinstance(node, ast.Call) and dotted_name(node.func) in ("partial", "functools.partial"):
        return all(_is_entry(part, constants) for part in [*node.args, *(keyword.value for keyword in node.keywords)])
    return inside or isinstance(node, ast.Lambda) or bool(path(node)) or is_constant(node, constants)


def is_type(node: ast.expr) -> bool:
    """Whether this names a type, like `dict[str, tuple[Tensor, ...]]`."""
    match node:
        case ast.Subscript():
            return isinstance(node.value, ast.Name) and is_type(node.slice)
        case ast.Tuple() | ast.List():
            return all(map(is_type, node.elts))
        case ast.Constant():
            return node.value is ... or node.value is None
    return isinstance(node, ast.Name)


def is_main_guard(node: ast.stmt) -> bool:
    """Whether this is `if __name__ == "__main__":` without `else`, whose code does not run when the chapter is imported."""
    return isinstance(node, ast.If) and not node.orelse and ast.dump(node.test) == _MAIN


_MAIN = ast.dump(ast.parse('__name__ == "__main__"', mode="eval").body)


def is_docstring(node: ast.stmt) -> bool:
    """Whether this is a statement without effect: a text, or `...`."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def assigned(node: ast.stmt) -> tuple[list[str], ast.expr] | None:
    """The names that an assignment binds, and its value; None for another statement, or if it assigns to something else than names."""
    if isinstance(node, ast.Assign):
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        return (names, node.value) if len(names) == len(node.targets) else None
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        return [node.target.id], node.value
    return None


def bound_at_top(node: ast.AST) -> Iterator[str]:
    """The names that a statement of the top level binds, those of imports too."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from imported_names(node)
    elif isinstance(node, ast.stmt):
        yield from bound_names(node)


def path(node: ast.expr) -> tuple[str, ...]:
    """The names of `a.b.c`; empty for any other expression."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return (node.id, *reversed(names)) if isinstance(node, ast.Name) else ()


def dotted_name(node: ast.expr) -> str:
    return ".".join(path(node))


def is_hidden(name: str) -> bool:
    return name.startswith("__")
