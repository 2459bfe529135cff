"""What a failed assertion looked at, as code over the results of calls: `close(learner.softmax(x).sum(-1), ...)` looked at `_4.sum(-1)`.

`_4` is the result of request 4 of the example, `_4_inputs_0` a gradient of a `gradients` request, `_c0` a constant. The code is evaluated on the
results: if it does not give what the assertion was given, there is no code, and the script shows the results only.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from grader.execution.proxy import Boundary, Handle
from grader.verdict.assertion_source import evaluate, last_binding, statement_at
from grader.verdict.failed_calls import Moment
from grader.verdict.value_code import NotCode, value_code
from torch import Tensor

RESULT = re.compile(r"\b_(\d+)(?:_(output|inputs_\d+|parameters))?\b")
_MODULES = {"torch": torch, "math": math, "F": torch.nn.functional}
_BUILTINS = frozenset("len sum list tuple set float int bool max min abs sorted round isinstance type zip range str all any".split())
_FALSE = object()  # instead of a value: the expression is a condition that did not hold
_MOST_STEPS = 80
_LARGE = 30  # numbers of a constant that is written out


class _Unknown(Exception):
    """This part of a test's source cannot be written as code over results."""


@dataclass(frozen=True)
class TestedCode:
    __test__ = False

    text: str
    constants: tuple[Any, ...] = ()  # `_c0`, `_c1`, …

    @property
    def positions(self) -> tuple[int, ...]:
        """Of the requests whose results it uses."""
        return tuple(sorted({int(found[1]) for found in RESULT.finditer(self.text)}))


def value_code_of(boundary: Boundary, value: Any, moments: list[Moment], positions: tuple[int, ...]) -> TestedCode | None:
    """The code of the value that an assertion was given."""
    results = _Results(boundary)
    if text := results.token_of(value):
        return TestedCode(text)
    for moment in moments[:1]:
        if (call := _assertion_at(moment)) is not None and call.args and (made := _write(call.args[0], moment, results, value)):
            return made
    if len(positions) == 1 and _agree(results.space.get(f"_{positions[0]}", _Unknown), value):
        return TestedCode(f"_{positions[0]}")
    return None


def condition_code(boundary: Boundary, moments: list[Moment]) -> TestedCode | None:
    """The code of a condition that had to hold."""
    call = _assertion_at(moments[0]) if moments else None
    if call is None or not call.args:
        return None
    condition = call.args[0]
    if _name_of(call) == "shaped" and len(call.args) > 1:
        shape = ast.Attribute(condition, "shape", ast.Load())
        condition = ast.copy_location(ast.Compare(shape, [ast.Eq()], [call.args[1]]), condition)
        condition = ast.fix_missing_locations(condition)
    elif _name_of(call) != "holds":
        return None
    return _write(condition, moments[0], _Results(boundary), _FALSE)


def _assertion_at(moment: Moment) -> ast.Call | None:
    """The call of an assertion function in the statement at this line."""
    statement = statement_at(moment.file, moment.line)
    nodes = ast.walk(statement) if statement is not None else ()
    calls = [node for node in nodes if isinstance(node, ast.Call) and _name_of(node) in ("close", "same", "holds", "shaped")]
    return calls[0] if calls else None


def _name_of(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _write(expression: ast.expr, moment: Moment, results: _Results, value: Any) -> TestedCode | None:
    """The expression as code; None if it cannot be written, or does not evaluate to the value (for _FALSE, to something false)."""
    coder = _Coder(moment, results)
    try:
        text = re.sub(r"\b(_\d+_inputs)\[(\d+)\]", r"\1_\2", coder.code(expression, moment.line))
        if not RESULT.search(text):
            return None
        constants = {f"_c{number}": constant for number, constant in enumerate(coder.constants)}
        found = eval(text, {**_MODULES, **results.space, **constants})
        right = not bool(found) if value is _FALSE else _agree(found, value)
    except Exception:
        return None
    return TestedCode(text, tuple(coder.constants)) if right else None


def _agree(found: Any, value: Any) -> bool:
    if isinstance(value, Tensor):
        same_kind = isinstance(found, Tensor) and found.shape == value.shape and found.dtype == value.dtype and not value.is_meta
        return same_kind and bool(torch.equal(found.nan_to_num(12345.0), value.nan_to_num(12345.0)))
    if isinstance(value, list | tuple):
        return type(found) is type(value) and len(found) == len(value) and all(map(_agree, found, value))
    if isinstance(value, dict):
        return isinstance(found, dict) and list(found) == list(value) and all(_agree(found[key], value[key]) for key in value)
    if isinstance(value, float) and math.isnan(value):
        return isinstance(found, float) and math.isnan(found)
    return not isinstance(value, Handle) and type(found) is type(value) and bool(found == value)


@dataclass
class _Results:
    """The results of all requests of the example, by name and by identity."""

    boundary: Boundary
    space: dict[str, Any] = field(default_factory=dict)
    tokens: dict[Any, str] = field(default_factory=dict)
    tensors: list[tuple[str, Tensor]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for reading in self.boundary.readings:
            if self.boundary.log[reading.position].op == "gradients":
                self._add_gradients(f"_{reading.position}", reading.value)
            else:
                self._add(f"_{reading.position}", reading.value)
        for call in self.boundary.calls:
            if 0 <= call.position < len(self.boundary.log) and self.boundary.log[call.position].op != "gradients":
                self._add(f"_{call.position}", call.result)

    def _add_gradients(self, name: str, found: dict) -> None:
        self._add(f"{name}_output", found["output"])
        self.tokens[id(found["inputs"])] = f"{name}_inputs"
        for number, gradient in enumerate(found["inputs"]):
            self._add(f"{name}_inputs_{number}", gradient)
        self._add(f"{name}_parameters", found["parameters"])

    def _add(self, name: str, value: Any) -> None:
        self.space[name] = value
        for text, part in _parts(name, value):
            if (key := _identity(part)) is not None:
                self.tokens[key] = text
            if isinstance(part, Tensor):
                self.tensors.append((text, part))

    def token_of(self, value: Any) -> str:
        """The code of a result, or of a part of one; empty if it is neither."""
        key = _identity(value)
        if key is None:
            return ""
        return self.tokens.get(key, "") or (self._view(value, key) if isinstance(value, Tensor) else "")

    def _view(self, value: Tensor, key: Any) -> str:
        """A row or a column of a result."""
        for text, whole in self.tensors:
            if whole.is_meta or value.is_meta or whole.untyped_storage()._cdata != value.untyped_storage()._cdata:
                continue
            for index, part in _slices(whole):
                if _identity(part) == key:
                    return f"{text}{index}"
        return ""

    def called_at(self, node: ast.Call, file: str) -> str:
        """The result of the last call of the implementation that this expression made."""
        name = node.func.attr if isinstance(node.func, ast.Attribute) else _name_of(node)
        first, last = node.lineno, node.end_lineno or node.lineno
        made = [c for c in self.boundary.calls if any(where == file and first <= line <= last for where, line in c.lines) and c.position < len(self.boundary.log)]
        if isinstance(node.func, ast.Attribute):
            made = [call for call in made if re.search(rf"(^|\.){re.escape(name)}$", call.what)]
        if not made:
            raise _Unknown
        return f"_{made[-1].position}"

    def only_reading(self, op: str) -> str:
        """The result of the only request of this kind."""
        found = {reading.position for reading in self.boundary.readings if self.boundary.log[reading.position].op == op}
        if len(found) != 1:
            raise _Unknown
        return f"_{found.pop()}"


def _slices(whole: Tensor) -> Iterator[tuple[str, Tensor]]:
    if whole.ndim and whole.shape[0] <= 64:
        for i in range(whole.shape[0]):
            yield f"[{i}]", whole[i]
            if whole.ndim > 1 and whole.shape[1] <= 64:
                yield from ((f"[{i}, {j}]", whole[i, j]) for j in range(whole.shape[1]))
    if whole.ndim > 1 and whole.shape[1] <= 64:
        yield from ((f"[:, {j}]", whole[:, j]) for j in range(whole.shape[1]))
    if whole.ndim > 2 and whole.shape[-1] <= 64:
        yield from ((f"[..., {j}]", whole[..., j]) for j in range(whole.shape[-1]))
        yield from ((f"[:, :, {j}]", whole[:, :, j]) for j in range(min(64, whole.shape[2])))


def _parts(name: str, value: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    yield name, value
    if depth < 5 and isinstance(value, list | tuple) and len(value) <= 200:
        for number, part in enumerate(value):
            yield from _parts(f"{name}[{number}]", part, depth + 1)
    elif depth < 5 and isinstance(value, dict) and len(value) <= 200:
        for key, part in value.items():
            yield from _parts(f"{name}[{key!r}]", part, depth + 1)


def _identity(value: Any) -> Any:
    """A key that only this value has; None for values that Python may share."""
    if isinstance(value, Tensor):
        if value.is_meta or not value.numel():
            return id(value)
        return value.data_ptr(), tuple(value.shape), value.stride(), value.dtype
    if isinstance(value, list | tuple | dict | float | set):
        return id(value)
    return None


class _Coder:
    """Writes an expression of a test, in the frame of this moment, as code over results and constants."""

    def __init__(self, moment: Moment, results: _Results) -> None:
        self.moment, self.results = moment, results
        self.constants: list[Any] = []
        self.steps = 0

    def code(self, node: ast.expr, line: int) -> str:
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise _Unknown
        value = evaluate(node, self.moment.variables)
        if value is not None and (token := self.results.token_of(value)):
            return token
        match node:
            case ast.Constant():
                return ast.unparse(node)
            case ast.Name(id=name):
                return self._name(name, line)
            case ast.Call():
                return self._call(node, line)
            case ast.Attribute(value=of, attr=name):
                if isinstance(of, ast.Name) and of.id in _MODULES:
                    return ast.unparse(node)
                owner = self._owner(of, line)
                return f"{owner}.{name}" if owner else self._constant(value)
            case ast.Subscript(value=of, slice=index):
                return f"{self._operand(of, line)}[{self.code(index, line)}]"
            case ast.Slice(lower=lower, upper=upper, step=step):
                parts = [self.code(part, line) if part is not None else "" for part in (lower, upper, step)]
                return ":".join(parts if step is not None else parts[:2])
            case ast.Tuple(elts=parts):
                inside = ", ".join(self.code(part, line) for part in parts)
                return f"({inside},)" if len(parts) == 1 else inside if any(isinstance(part, ast.Slice) for part in parts) else f"({inside})"
            case ast.List(elts=parts):
                return f"[{', '.join(self.code(part, line) for part in parts)}]"
            case ast.BinOp(left=left, op=op, right=right):
                return f"{self._operand(left, line)} {_sign(op)} {self._operand(right, line)}"
            case ast.UnaryOp(op=op, operand=operand):
                return f"{_sign(op)}{self._operand(operand, line)}"
            case ast.BoolOp(op=op, values=values):
                return f" {_sign(op)} ".join(self._operand(part, line) for part in values)
            case ast.Compare(left=left, ops=ops, comparators=others):
                return self._operand(left, line) + "".join(f" {_sign(op)} {self._operand(other, line)}" for op, other in zip(ops, others))
        raise _Unknown

    def _operand(self, node: ast.expr, line: int) -> str:
        text = self.code(node, line)
        return f"({text})" if isinstance(ast.parse(text, mode="eval").body, ast.BinOp | ast.UnaryOp | ast.BoolOp | ast.Compare) else text

    def _owner(self, node: ast.expr, line: int) -> str:
        """The code of an object whose attribute is read; empty if the object is a test's own, such as the sizes of the example."""
        known = evaluate(node, self.moment.variables)
        if known is not None and not isinstance(known, Tensor | Handle | list | dict | str):
            return ""
        return self._operand(node, line)

    def _name(self, name: str, line: int) -> str:
        if name not in self.moment.variables:
            raise _Unknown
        value = self.moment.variables[name]
        source = last_binding(self.moment.file, line, name)
        if source is not None and source.lineno < line:
            text = self.code(source, source.lineno)
            if RESULT.search(text):
                return f"({text})"
        return self._constant(value)

    def _call(self, node: ast.Call, line: int) -> str:
        func = node.func
        if isinstance(func, ast.Attribute) or isinstance(self.moment.variables.get(_name_of(node)), Handle):
            try:
                return self.results.called_at(node, self.moment.file)
            except _Unknown:
                pass
        if isinstance(func, ast.Name) and func.id in ("parameters", "state", "buffers"):
            return self.results.only_reading(func.id)
        if isinstance(func, ast.Name) and func.id in _BUILTINS and func.id not in self.moment.variables:
            start = func.id
        elif isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id in _MODULES:
            start = ast.unparse(func)
        elif isinstance(func, ast.Attribute) and isinstance(func.value, ast.Attribute | ast.Name) and ast.unparse(func.value).startswith("torch."):
            start = ast.unparse(func)
        elif isinstance(func, ast.Attribute):
            start = f"{self._operand(func.value, line)}.{func.attr}"
        else:
            raise _Unknown
        arguments = [self.code(argument, line) for argument in node.args]
        arguments += [f"{keyword.arg}={self.code(keyword.value, line)}" for keyword in node.keywords if keyword.arg]
        return f"{start}({', '.join(arguments)})"

    def _constant(self, value: Any) -> str:
        if isinstance(value, Handle):
            raise _Unknown
        try:
            return value_code(value, _LARGE)
        except NotCode:
            if not isinstance(value, Tensor):
                raise _Unknown from None
            self.constants.append(value)
            return f"_c{len(self.constants) - 1}"


def _sign(op: ast.AST) -> str:
    signs = {
        ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**", ast.MatMult: "@", ast.BitAnd: "&",
        ast.BitOr: "|", ast.USub: "-", ast.Not: "not ", ast.Invert: "~", ast.And: "and", ast.Or: "or", ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<",
        ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.In: "in", ast.NotIn: "not in", ast.Is: "is", ast.IsNot: "is not",
    }  # fmt: skip
    if type(op) not in signs:
        raise _Unknown
    return signs[type(op)]
