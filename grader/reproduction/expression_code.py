"""Writes an expression of a test as code over the results of calls."""

from __future__ import annotations

import ast
import math
from typing import Any

import torch
from grader.execution.proxy import Handle
from grader.reproduction.named_results import RESULT, NamedResults, Unknown, called_name
from grader.verdict.assertion_source import evaluate, last_binding
from grader.verdict.failed_calls import Moment
from grader.verdict.value_code import NotCode, value_code
from torch import Tensor

MODULES = {"torch": torch, "math": math, "F": torch.nn.functional}
_BUILTINS = frozenset("len sum list tuple set float int bool max min abs sorted round isinstance type zip range str all any".split())
_MOST_STEPS = 80
_LARGE = 30  # numbers of a constant that is written out


class ExpressionCoder:
    """Writes an expression of a test, in the frame of this moment, as code over results and constants."""

    def __init__(self, moment: Moment, results: NamedResults) -> None:
        self.moment, self.results = moment, results
        self.constants: list[Any] = []
        self.steps = 0

    def code(self, node: ast.expr, line: int) -> str:
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise Unknown
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
                if isinstance(of, ast.Name) and of.id in MODULES:
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
        raise Unknown

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
            raise Unknown
        value = self.moment.variables[name]
        source = last_binding(self.moment.file, line, name)
        if source is not None and source.lineno < line:
            text = self.code(source, source.lineno)
            if RESULT.search(text):
                return f"({text})"
        return self._constant(value)

    def _call(self, node: ast.Call, line: int) -> str:
        func = node.func
        if isinstance(func, ast.Attribute) or isinstance(self.moment.variables.get(called_name(node)), Handle):
            try:
                return self.results.called_at(node, self.moment.file)
            except Unknown:
                pass
        if isinstance(func, ast.Name) and func.id in ("parameters", "state", "buffers"):
            return self.results.only_reading(func.id)
        if isinstance(func, ast.Name) and func.id in _BUILTINS and func.id not in self.moment.variables:
            start = func.id
        elif isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id in MODULES:
            start = ast.unparse(func)
        elif isinstance(func, ast.Attribute) and isinstance(func.value, ast.Attribute | ast.Name) and ast.unparse(func.value).startswith("torch."):
            start = ast.unparse(func)
        elif isinstance(func, ast.Attribute):
            start = f"{self._operand(func.value, line)}.{func.attr}"
        else:
            raise Unknown
        arguments = [self.code(argument, line) for argument in node.args]
        arguments += [f"{keyword.arg}={self.code(keyword.value, line)}" for keyword in node.keywords if keyword.arg]
        return f"{start}({', '.join(arguments)})"

    def _constant(self, value: Any) -> str:
        if isinstance(value, Handle):
            raise Unknown
        try:
            return value_code(value, _LARGE)
        except NotCode:
            if not isinstance(value, Tensor):
                raise Unknown from None
            self.constants.append(value)
            return f"_c{len(self.constants) - 1}"


def _sign(op: ast.AST) -> str:
    signs = {
        ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**", ast.MatMult: "@", ast.BitAnd: "&",
        ast.BitOr: "|", ast.USub: "-", ast.Not: "not ", ast.Invert: "~", ast.And: "and", ast.Or: "or", ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<",
        ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.In: "in", ast.NotIn: "not in", ast.Is: "is", ast.IsNot: "is not",
    }  # fmt: skip
    if type(op) not in signs:
        raise Unknown
    return signs[type(op)]
