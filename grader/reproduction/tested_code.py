"""What a failed assertion looked at, as code over the results of calls: `close(learner.softmax(x).sum(-1), ...)` looked at `_4.sum(-1)`.

`_4` is the result of request 4 of the example (named_results.py), `_c0` a constant. The code is evaluated on the results: if it does not give what the
assertion was given, there is no code, and the script shows the results only.
"""

from __future__ import annotations

import ast
import math
import re
from dataclasses import dataclass
from typing import Any

import torch
from grader.execution.proxy import Boundary, Handle
from grader.reproduction.expression_code import MODULES, ExpressionCoder
from grader.reproduction.named_results import RESULT, NamedResults, Unknown, called_name
from grader.verdict.assertion_source import statement_at
from grader.verdict.failed_calls import Moment
from torch import Tensor

_FALSE = object()  # instead of a value: the expression is a condition that did not hold


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
    results = NamedResults(boundary)
    if text := results.token_of(value):
        return TestedCode(text)
    for moment in moments[:1]:
        if (call := _assertion_at(moment)) is not None and call.args and (made := _write(call.args[0], moment, results, value)):
            return made
    if len(positions) == 1 and _agree(results.space.get(f"_{positions[0]}", Unknown), value):
        return TestedCode(f"_{positions[0]}")
    return None


def condition_code(boundary: Boundary, moments: list[Moment]) -> TestedCode | None:
    """The code of a condition that had to hold."""
    call = _assertion_at(moments[0]) if moments else None
    if call is None or not call.args:
        return None
    condition = call.args[0]
    if called_name(call) == "shaped" and len(call.args) > 1:
        shape = ast.Attribute(condition, "shape", ast.Load())
        condition = ast.copy_location(ast.Compare(shape, [ast.Eq()], [call.args[1]]), condition)
        condition = ast.fix_missing_locations(condition)
    elif called_name(call) != "holds":
        return None
    return _write(condition, moments[0], NamedResults(boundary), _FALSE)


def _assertion_at(moment: Moment) -> ast.Call | None:
    """The call of an assertion function in the statement at this line."""
    statement = statement_at(moment.file, moment.line)
    nodes = ast.walk(statement) if statement is not None else ()
    calls = [node for node in nodes if isinstance(node, ast.Call) and called_name(node) in ("close", "same", "holds", "shaped")]
    return calls[0] if calls else None


def _write(expression: ast.expr, moment: Moment, results: NamedResults, value: Any) -> TestedCode | None:
    """The expression as code; None if it cannot be written, or does not evaluate to the value (for _FALSE, to something false)."""
    coder = ExpressionCoder(moment, results)
    try:
        text = re.sub(r"\b(_\d+_inputs)\[(\d+)\]", r"\1_\2", coder.code(expression, moment.line))
        if not RESULT.search(text):
            return None
        constants = {f"_c{number}": constant for number, constant in enumerate(coder.constants)}
        found = eval(text, {**MODULES, **results.space, **constants})
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
