"""Small changes of each statement and expression of an exercise, one at a time."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

NOT_METHODS = {"torch", "math", "nn", "F", "hashlib", "int", "dict", "bytes"}  # before the dot of a function
MODULES_OF_LAYERS = {"self", "block", "model"}  # their attributes are layers, not methods
BUILTINS = {"max", "min", "sum", "any", "all", "sorted", "LayerNorm", "PreNormBlock"}  # names that have siblings

OPERATORS: dict[type, tuple[type, ...]] = {
    ast.Add: (ast.Sub,), ast.Sub: (ast.Add,), ast.Mult: (ast.Div,), ast.Div: (ast.Mult, ast.FloorDiv),
    ast.FloorDiv: (ast.Mult,), ast.Mod: (ast.FloorDiv,), ast.Pow: (ast.Mult,), ast.MatMult: (ast.Mult,),
    ast.BitAnd: (ast.BitOr,), ast.BitOr: (ast.BitAnd,),
}  # fmt: skip
ORDER_MATTERS = (ast.Sub, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.MatMult)
COMPARISONS: dict[type, tuple[type, ...]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
}  # fmt: skip
AUGMENTED: dict[type, type] = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.BitOr: ast.BitAnd}
EXCHANGEABLE_NAMES = """
ones zeros, ones_like zeros_like, ones_ zeros_, max min, amax amin, argmax argmin, cos sin, triu tril, sum mean,
any all, add_ sub_, append extend, items keys, softmax log_softmax, named_parameters named_buffers, parameters buffers,
modules children, rand randn, square abs, tanh sigmoid, amax mean, repeat_interleave repeat, stack cat,
register_forward_hook register_forward_pre_hook
"""
CONFUSABLE_NAMES = """
exp expm1, sqrt exp, erf tanh, relu abs, cumsum cumprod, argsort sort, lower upper, normal_ uniform_, mul_ div_,
copy_ add_, randperm arange, sorted list, empty ones, float double, bool int64, float32 float64, pi e, inf pi,
flatten squeeze, LayerNorm RMSNorm, PreNormBlock PostNormBlock, topk sort
"""


def _siblings() -> dict[str, list[str]]:
    """Names of the library that are easily confused: each with those that may replace it."""
    found: dict[str, list[str]] = {}
    for pairs, both_ways in ((EXCHANGEABLE_NAMES, True), (CONFUSABLE_NAMES, False)):
        for one, other in (pair.split() for pair in pairs.split(",")):
            found.setdefault(one, []).append(other)
            if both_ways:
                found.setdefault(other, []).append(one)
    return found


SIBLINGS = _siblings()


@dataclass(frozen=True)
class Place:
    """A node of the tree, and the field of its parent that contains it."""

    node: Any
    parent: Any
    field: str
    index: int | None = None  # in a field that is a list

    def put(self, node: Any) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


# ---- functions and statements


def changes_in_function(function: ast.FunctionDef) -> Iterator[tuple[ast.AST, list[ast.AST]]]:
    """Assignments to names that are defined without them, removed; returned tensors, without their gradient."""
    bound = {argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)}
    returns = ast.unparse(function.returns) if function.returns else ""
    for statement in _statements(function.body):
        if isinstance(statement, ast.Assign):
            leaves = [leaf for target in statement.targets for leaf in ast.walk(target)]
            names = {leaf.id for leaf in leaves if isinstance(leaf, ast.Name) and isinstance(leaf.ctx, ast.Store)}
            if names <= bound:
                yield statement, [ast.Pass()]
            bound |= names
        elif isinstance(statement, ast.Return) and statement.value and returns == "Tensor":
            yield statement.value, [_detached(statement.value)]
        elif isinstance(statement, ast.Return) and returns.startswith("tuple[Tensor"):
            for part in statement.value.elts if isinstance(statement.value, ast.Tuple) else ():
                if not (isinstance(part, ast.Constant) and part.value is None):
                    yield part, [_detached(part)]


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a function in order, without those of inner functions."""
    for statement in body:
        yield statement
        if not isinstance(statement, ast.FunctionDef | ast.ClassDef):
            for field in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(statement, field, []))


def _detached(value: ast.expr) -> ast.expr:
    return ast.Call(ast.Attribute(value, "detach"), [], [])


def alternatives(place: Place) -> Iterator[ast.AST]:
    """What may replace the node; its children are changed separately."""
    node, always = place.node, ast.Constant(True)
    match node:
        case ast.FunctionDef():
            for index in range(len(node.decorator_list)):
                yield _with(node, decorator_list=_without(node.decorator_list, index))
        case ast.Expr(value=ast.Constant()):
            pass  # a docstring
        case ast.Expr() | ast.Raise() | ast.Break() | ast.Continue():
            yield ast.Pass()
        case ast.AugAssign():
            yield ast.Pass()
            if type(node.op) in AUGMENTED:
                yield _with(node, op=AUGMENTED[type(node.op)]())
                yield ast.Assign([node.target], node.value, lineno=node.lineno)
        case ast.For():
            yield ast.Pass()
        case ast.With():
            yield ast.If(always, node.body, [])
        case ast.Try(handlers=[], finalbody=[_, *_]):  # the last part runs only if no error was raised
            yield ast.If(always, [ast.If(always, node.body, []), ast.If(always, node.finalbody, [])], [])
        case ast.Return(value=ast.Tuple(elts=[one, other])):
            yield from (ast.Return(part) for part in (one, other))
        case ast.expr() if not isinstance(getattr(node, "ctx", None), ast.Store | ast.Del):
            if place.field == "ifs" or (place.field == "test" and isinstance(place.parent, ast.If)):
                yield always
            if place.field == "test" and isinstance(place.parent, ast.stmt):
                yield ast.Constant(False)
            if place.field == "iter":
                yield from _without_ends(node)
            yield from _expressions(node, place.parent)


# ---- expressions


def _expressions(node: ast.expr, parent: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.Slice():
            yield from _slices(node)
        case ast.BinOp():
            yield from (_with(node, op=other()) for other in OPERATORS.get(type(node.op), ()))
            if isinstance(node.op, ORDER_MATTERS):
                yield ast.BinOp(node.right, node.op, node.left)
            yield from (node.left, node.right)
        case ast.UnaryOp() if is_negative(node):
            number = node.operand.value  # type: ignore[attr-defined]
            yield from map(_number, _numbers(-number))
            yield ast.Constant(number)
        case ast.UnaryOp():
            yield node.operand
        case ast.Compare():
            for index, op in enumerate(node.ops):
                yield from (_with(node, ops=_replaced(node.ops, index, other())) for other in COMPARISONS[type(op)])
        case ast.BoolOp():
            yield _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
            for index in range(len(node.values)):
                left = _without(node.values, index)
                yield _with(node, values=left) if len(left) > 1 else left[0]
        case ast.IfExp():
            yield from (node.body, node.orelse)
        case ast.Constant(value=bool()):
            yield ast.Constant(not node.value)
        case ast.Constant(value=int() | float()):
            yield from map(_number, _numbers(node.value))  # type: ignore[arg-type]
        case ast.Constant(value=str()):
            yield ast.Constant(str(node.value) + "x")
        case ast.JoinedStr():
            yield ast.Constant("changed")
        case ast.Call():
            yield from _calls(node, parent)
        case ast.Attribute():
            yield from (_with(node, attr=other) for other in SIBLINGS.get(node.attr, ()))
            if node.attr == "T":
                yield node.value
        case ast.Name() if node.id in BUILTINS:
            yield from (_with(node, id=other) for other in SIBLINGS.get(node.id, ()))
        case ast.Subscript():
            yield node.value
        case ast.Tuple() | ast.List() if not isinstance(parent, ast.Compare):  # order is nothing to a membership test
            yield from (_with(node, elts=other) for other in _exchanged(node.elts))


def _calls(node: ast.Call, parent: ast.AST) -> Iterator[ast.expr]:
    yield from (_with(node, keywords=_without(node.keywords, index)) for index in range(len(node.keywords)))
    if len(node.args) > 1:
        yield _with(node, args=node.args[:-1])
    if ast.unparse(node.func) == "range":
        yield from _ranges(node)
    yield from (_with(node, args=other) for other in _exchanged(node.args))
    if isinstance(parent, ast.Expr | ast.withitem):
        return  # the whole statement can be left out
    receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
    root = receiver
    while isinstance(root, ast.Attribute):
        root = root.value
    of_library = isinstance(root, ast.Name) and root.id in NOT_METHODS
    is_layer = node.args and isinstance(receiver, ast.Name) and receiver.id in MODULES_OF_LAYERS
    if receiver and not of_library and not is_layer:
        yield receiver
    elif node.args and not isinstance(node.args[0], ast.Starred | ast.GeneratorExp):
        yield node.args[0]


def _ranges(node: ast.Call) -> Iterator[ast.expr]:
    if len(node.args) == 1:
        yield _with(node, args=[ast.Constant(1), *node.args])
    last = min(1, len(node.args) - 1)
    for op in (ast.Add(), ast.Sub()):
        end = ast.BinOp(node.args[last], op, ast.Constant(1))
        yield _with(node, args=_replaced(node.args, last, end))


def _slices(node: ast.Slice) -> Iterator[ast.expr]:
    if not (node.lower or node.upper or node.step):
        return
    yield _with(node, lower=None if node.lower else ast.Constant(1))
    yield _with(node, upper=None if node.upper else _number(-1))
    if node.step:
        yield _with(node, step=None)


def _without_ends(items: ast.expr) -> Iterator[ast.expr]:
    """What a loop goes through, without its first or its last item."""
    if not ast.unparse(items).startswith("range("):
        for part in (ast.Slice(ast.Constant(1)), ast.Slice(None, _number(-1))):
            yield ast.Subscript(ast.Call(ast.Name("list"), [items], []), part)


def _exchanged(items: list) -> Iterator[list]:
    """The items with two neighbours exchanged."""
    for index, (one, other) in enumerate(pairwise(items)):
        yield [*items[:index], other, one, *items[index + 2 :]]


def _numbers(value: int | float) -> Iterator[int | float]:
    others = [value + 1, value - 1, 0] if isinstance(value, int) else [2 * value, 0.0] if value else [1.0]
    yield from (other for other in others if other != value)


def _number(value: int | float) -> ast.expr:
    return ast.UnaryOp(ast.USub(), ast.Constant(-value)) if value < 0 else ast.Constant(value)


def is_negative(node: ast.AST) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant)


def _with(node: Any, **fields: Any) -> Any:
    """A copy of the node with other fields."""
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def _without(items: list, index: int) -> list:
    return [*items[:index], *items[index + 1 :]]


def _replaced(items: list, index: int, new: Any) -> list:
    return [*items[:index], new, *items[index + 1 :]]
