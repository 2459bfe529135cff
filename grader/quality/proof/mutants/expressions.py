"""Changes to one expression: another operator, another number, an argument left out or exchanged, a call dropped."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from itertools import pairwise

from grader.quality.proof.mutants.places import ATOMS, Change, Places
from grader.quality.proof.mutants.siblings import SIBLINGS

OPERATORS = {
    ast.Add: ["-"], ast.Sub: ["+"], ast.Mult: ["/"], ast.Div: ["*", "//"], ast.FloorDiv: ["*"], ast.Mod: ["//"], ast.Pow: ["*"], ast.MatMult: ["*"],
    ast.BitAnd: ["|"], ast.BitOr: ["&"],
}  # fmt: skip
ORDER_MATTERS = (ast.Sub, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.MatMult)
SYMBOLS = {ast.Sub: "-", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**", ast.MatMult: "@"}
COMPARISONS = {
    ast.Lt: ["<=", ">="], ast.LtE: ["<", ">"], ast.Gt: [">=", "<="], ast.GtE: [">", "<"], ast.Eq: ["!="], ast.NotEq: ["=="],
    ast.Is: ["is not"], ast.IsNot: ["is"], ast.In: ["not in"], ast.NotIn: ["in"],
}  # fmt: skip
COMPARISON_SYMBOLS = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip
LIBRARIES = {"torch", "math", "nn", "F", "hashlib", "int", "dict", "bytes"}  # names before the dot of a function that is not a method
JOINS = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Attribute, ast.Subscript, ast.Call, ast.Starred, ast.IfExp)


def of_expression(node: ast.expr, parent: ast.AST | None, places: Places) -> Iterator[Change]:
    """All changes to this node; its children are changed separately."""
    if isinstance(getattr(node, "ctx", None), ast.Store | ast.Del):
        return
    if isinstance(node, ast.Slice):
        yield from (places.change(node, new) for new in _slice(node, places))
    elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
        for generator in node.generators:
            yield from (places.change(condition, "True") for condition in generator.ifs)
            yield from without_ends(generator.iter, places)
    else:
        for new in dict.fromkeys(_alternatives(node, parent, places)):
            yield places.change(node, new if _fits(new, node, parent, places) else f"({new})")
        if isinstance(node, ast.Call | ast.Tuple | ast.List):
            yield from _exchanged(node, parent, places)


def _fits(new: str, node: ast.expr, parent: ast.AST | None, places: Places) -> bool:
    """Does this expression need no parentheses in the place of the node?"""
    argument = (isinstance(parent, ast.Call) and parent.func is not node) or (isinstance(parent, ast.Subscript) and parent.slice is node)
    if not isinstance(parent, JOINS) or argument or places.is_enclosed(node):
        return True
    kind = ast.parse(new, mode="eval").body
    return isinstance(kind, ATOMS) or (isinstance(parent, ast.BoolOp | ast.IfExp) and isinstance(kind, ast.Compare))


def without_ends(node: ast.expr, places: Places) -> Iterator[Change]:
    """What is iterated over, without its first or its last item."""
    if not places.source(node).startswith("range("):
        yield places.change(node, f"list({places.source(node)})[1:]")
        yield places.change(node, f"list({places.source(node)})[:-1]")


def _alternatives(node: ast.expr, parent: ast.AST | None, places: Places) -> Iterator[str]:
    match node:
        case ast.BinOp():
            yield from _binary(node, places)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            yield from _numbers(-number)
            yield repr(number)
        case ast.UnaryOp():
            yield places.source(node.operand)
        case ast.Compare():
            yield from _comparison(node, places)
        case ast.BoolOp():
            symbol, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            values = [places.tight(value) for value in node.values]
            yield f" {other} ".join(values)
            for place in range(len(values)):
                left = values[:place] + values[place + 1 :]
                yield f" {symbol} ".join(left) if len(left) > 1 else places.source(node.values[1 - place])
        case ast.IfExp():
            yield places.source(node.body)
            yield places.source(node.orelse)
        case ast.Constant():
            yield from _constant(node.value)
        case ast.JoinedStr():
            yield '"changed"'
        case ast.Call():
            yield from _call(node, parent, places)
        case ast.Attribute() | ast.Name():
            yield from _name(node, places)
        case ast.Subscript():
            yield places.source(node.value)


def _binary(node: ast.BinOp, places: Places) -> Iterator[str]:
    left, right = places.tight(node.left), places.tight(node.right)
    for operator in OPERATORS.get(type(node.op), []):
        yield f"{left} {operator} {right}"
    if isinstance(node.op, ORDER_MATTERS):
        yield f"{right} {SYMBOLS[type(node.op)]} {left}"
    yield places.source(node.left)
    yield places.source(node.right)


def _comparison(node: ast.Compare, places: Places) -> Iterator[str]:
    terms = [places.tight(term) for term in (node.left, *node.comparators)]
    symbols = [COMPARISON_SYMBOLS[type(op)] for op in node.ops]
    for place, op in enumerate(node.ops):
        for other in COMPARISONS[type(op)]:
            new = symbols[:place] + [other] + symbols[place + 1 :]
            yield terms[0] + "".join(f" {symbol} {term}" for symbol, term in zip(new, terms[1:]))


def _constant(value: object) -> Iterator[str]:
    if isinstance(value, bool):
        yield str(not value)
    elif isinstance(value, int | float):
        yield from _numbers(value)
    elif isinstance(value, str):
        yield json.dumps(value + "x", ensure_ascii=False)


def _numbers(value: int | float) -> Iterator[str]:
    others = [value + 1, value - 1, 0] if isinstance(value, int) else [2 * value, 0.0] if value else [1.0]
    yield from (repr(other) for other in others if other != value)


def _call(node: ast.Call, parent: ast.AST | None, places: Places) -> Iterator[str]:
    function = places.source(node.func)
    words = [places.source(argument) for argument in node.args]
    named = [f"{keyword.arg}={places.source(keyword.value)}" if keyword.arg else f"**{places.source(keyword.value)}" for keyword in node.keywords]

    def with_arguments(positional: list[str], keywords: list[str]) -> str:
        return f"{function}({', '.join(positional + keywords)})"

    for place in range(len(named)):
        yield with_arguments(words, named[:place] + named[place + 1 :])
    if len(words) > 1:
        yield with_arguments(words[:-1], named)
    if function == "range":
        yield from _range(words)
    if isinstance(parent, ast.Expr | ast.withitem):
        return  # the whole statement can be left out
    if isinstance(node.func, ast.Attribute) and not _is_library(node.func.value) and not (words and _has_parts(node.func.value)):
        yield places.source(node.func.value)
    elif words and not isinstance(node.args[0], ast.Starred | ast.GeneratorExp):
        yield words[0]


def _slice(node: ast.Slice, places: Places) -> Iterator[str]:
    lower, upper, step = (places.source(part) if part else "" for part in (node.lower, node.upper, node.step))
    if not (lower or upper or step):
        return
    tail = f":{step}" if step else ""
    yield f":{upper}{tail}" if lower else f"1:{upper}{tail}"
    yield f"{lower}:{tail}" if upper else f"{lower}:-1{tail}"
    if step:
        yield f"{lower}:{upper}"


def _range(words: list[str]) -> Iterator[str]:
    if len(words) == 1:
        yield f"range(1, {words[0]})"
    last = 0 if len(words) == 1 else 1
    for end in (f"{words[last]} + 1", f"{words[last]} - 1"):
        yield f"range({', '.join([*words[:last], end, *words[last + 1 :]])})"


def _is_library(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in LIBRARIES


def _has_parts(node: ast.expr) -> bool:
    """Is this a module? Then its attributes are layers, not methods."""
    return isinstance(node, ast.Name) and node.id in ("self", "block", "model")


def _name(node: ast.Attribute | ast.Name, places: Places) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield from SIBLINGS.get(node.id, []) if node.id in ("max", "min", "sum", "any", "all", "sorted", "LayerNorm", "PreNormBlock") else []
        return
    owner = places.tight(node.value)
    for other in SIBLINGS.get(node.attr, []):
        yield f"{owner}.{other}"
    if node.attr == "T":
        yield owner


def _exchanged(node: ast.Call | ast.Tuple | ast.List, parent: ast.AST | None, places: Places) -> Iterator[Change]:
    """Swap neighbouring arguments, or neighbouring items of a tuple or list."""
    if isinstance(parent, ast.Compare) and not isinstance(node, ast.Call):
        return  # the order does not matter in a membership test
    for one, other in pairwise(node.args if isinstance(node, ast.Call) else node.elts):
        start, end = places.span(one)[0], places.span(other)[1]
        between = places.text[places.span(one)[1] : places.span(other)[0]]
        yield Change(start, end, places.source(other) + between + places.source(one))
