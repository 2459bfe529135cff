"""Finds the calls whose values a failed assertion looked at.

First by identity: the value that the assertion was given, or the object or the storage that it is part of, is the
result of a call. A value that the test computed has no such identity; its assertion's source then names the variables
it was computed from, and those lead to calls.
"""

from __future__ import annotations

import ast
import linecache
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from grader.course.syllabus import TESTS
from grader.execution.proxy import Boundary, Call, Handle
from torch import Tensor

ASSERTIONS = frozenset({"close", "same", "holds", "shaped", "refuses"})  # their first argument is what they look at
MAX_SHOWN_CALLS = 3  # shown for one failure
MAX_PARTS = 2_000  # of one value that are searched
MAX_STEPS = 5  # from variable to variable
_TEST_FOLDERS = (f"{TESTS}{os.sep}", f"{Path(__file__).parents[1] / 'tests'}{os.sep}")


@dataclass
class Moment:
    """A line that a frame of the test was at, with its variables."""

    file: str
    line: int
    variables: dict[str, Any]


def _is_test(file: str) -> bool:
    """Is this a graded suite, a helper module next to it, or a test of the kit itself?"""
    return file.startswith(_TEST_FOLDERS)


def current_moments() -> list[Moment]:
    """The test's frames, innermost first, without the kit's own assertions."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not _is_test(frame.f_code.co_filename):
        frame = frame.f_back
    found: list[Moment] = []
    while frame is not None and len(found) < 4 and _is_test(frame.f_code.co_filename):
        found.append(Moment(frame.f_code.co_filename, frame.f_lineno, dict(frame.f_locals)))
        frame = frame.f_back
    return found


def moments_of(traceback: TracebackType | None) -> list[Moment]:
    """The test's frames in a traceback, innermost first."""
    found: list[Moment] = []
    while traceback is not None:
        frame = traceback.tb_frame
        if _is_test(frame.f_code.co_filename):
            found.insert(0, Moment(frame.f_code.co_filename, traceback.tb_lineno, dict(frame.f_locals)))
        traceback = traceback.tb_next
    return found[:4]


def find_calls(boundary: Boundary | None, looked_at: Any, moments: list[Moment]) -> list[Call]:
    """The calls behind a value, in the order in which they were made; without a trace of any, the last call."""
    if boundary is None or not boundary.calls:
        return []
    if isinstance(looked_at, Call):
        return [looked_at]
    search = _Search(boundary)
    found = search.calls_of(looked_at)
    if not found and moments:
        found = search.follow(moments)
    return sorted(found or boundary.calls[-1:], key=boundary.calls.index)


class _Search:
    def __init__(self, boundary: Boundary) -> None:
        self.boundary = boundary
        self.makers: dict[int, Call] = {}  # by identity of the value, or of its storage
        for call in boundary.calls:
            self._add(call.result, call)
        for reading in boundary.readings:
            left_by = self._last_involving(reading.owner, reading.calls_before)
            if left_by:
                self._add(reading.value, left_by)

    def _add(self, value: Any, call: Call) -> None:
        for part in _parts(value):
            if (key := _identity(part)) is not None:
                self.makers[key] = call

    def _last_involving(self, owner: Any, before: int) -> Call | None:
        """The last call, before this moment, of the object or with it: the call that left it as it was read."""
        for call in reversed(self.boundary.calls[:before]):
            involved = _handles([call.callee, call.args, call.options, call.result])
            if owner in involved or _owner_of(call.callee) == owner:
                return call
        return None

    def calls_of(self, value: Any) -> list[Call]:
        """The calls that returned this value or parts of it."""
        own = self.makers.get(key) if (key := _identity(value)) is not None else None
        if own:
            return [own]
        parts = (self.makers.get(key) for part in _parts(value) if (key := _identity(part)) is not None)
        return list(dict.fromkeys(call for call in parts if call))

    def follow(self, moments: list[Moment]) -> list[Call]:
        """The calls that the innermost statement depends on; if there are none, the statement that called it."""
        for moment in moments:
            statement = statement_at(moment.file, moment.line)
            if statement is not None and (found := self._behind(looked_at_expressions(statement), moment, moment.line)):
                return found
        return []

    def _behind(self, expressions: list[ast.expr], moment: Moment, line: int, steps: int = 0) -> list[Call]:
        """The calls that made the values of these expressions, those of their variables included."""
        found: list[Call] = []
        for node in (node for expression in expressions for node in ast.walk(expression)):
            if isinstance(node, ast.Call):
                found += self._made_by(node, moment.file)
            elif isinstance(node, ast.Name) and node.id in moment.variables:
                value = moment.variables[node.id]
                if callable(value) and not isinstance(value, Handle):
                    continue
                made = self.calls_of(value)
                bound = last_binding(moment.file, line, node.id) if not made and steps < MAX_STEPS else None
                found += made or (self._behind([bound], moment, bound.lineno, steps + 1) if bound else [])
        return list(dict.fromkeys(found))

    def _made_by(self, expression: ast.Call, file: str) -> list[Call]:
        """The calls made on the lines of this expression; of a statement that a loop repeats, only the last ones."""
        first, last = expression.lineno, expression.end_lineno or expression.lineno
        lines = {(file, line) for line in range(first, last + 1)}
        calls = [call for call in self.boundary.calls if not lines.isdisjoint(call.lines)]
        loops = _nodes(file, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp)
        if any(loop.lineno <= first and last <= (loop.end_lineno or loop.lineno) for loop in loops):
            return calls
        return calls[-sum(isinstance(node, ast.Call) for node in ast.walk(expression)) :]


# ---- values


def _identity(value: Any) -> int | None:
    """A key that only this value and its views have; None for values that Python may share, as small numbers."""
    if isinstance(value, Tensor):
        return value.untyped_storage()._cdata if not value.is_meta else id(value)
    if value is None or isinstance(value, bool | int | str | bytes | type):
        return None
    return id(value)


def _parts(value: Any) -> Iterator[Any]:
    """The value, and what it contains."""
    waiting, count = [value], 0
    while waiting and count < MAX_PARTS:
        part = waiting.pop()
        count += 1
        yield part
        if isinstance(part, list | tuple | set):
            waiting.extend(reversed(list(part)))
        elif isinstance(part, dict):
            waiting.extend(reversed(part.values()))


def _handles(values: Any) -> list[Handle]:
    return [part for part in _parts(values) if isinstance(part, Handle)]


def _owner_of(callee: Any) -> Any:
    return object.__getattribute__(callee, "_owner") if isinstance(callee, Handle) else None


# ---- the source of a test: what an assertion looks at, and what a variable was last bound to


@lru_cache(maxsize=64)
def _nodes(file: str, kind: Any) -> list[Any]:
    """The nodes of this kind in the file."""
    try:
        return [node for node in ast.walk(ast.parse("".join(linecache.getlines(file)))) if isinstance(node, kind)]
    except (SyntaxError, ValueError):
        return []


def statement_at(file: str, line: int) -> ast.stmt | None:
    """The smallest statement that contains the line."""
    around = [node for node in _nodes(file, ast.stmt) if node.lineno <= line <= (node.end_lineno or node.lineno)]
    return min(around, key=lambda node: (node.end_lineno or node.lineno) - node.lineno, default=None)


def looked_at_expressions(statement: ast.stmt) -> list[ast.expr]:
    """What an assertion looks at: its first argument; else all expressions of the statement."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ASSERTIONS and node.args:
            return [node.args[0]]
    return [node for node in ast.iter_child_nodes(statement) if isinstance(node, ast.expr)]


def last_binding(file: str, line: int, name: str) -> ast.expr | None:
    """The expression that the name was last bound to above this line, by an assignment or by a loop."""
    around = [node for node in _nodes(file, ast.FunctionDef) if node.lineno <= line <= (node.end_lineno or node.lineno)]
    above = [node for node in ast.walk(around[-1]) if getattr(node, "lineno", line) < line] if around else []
    found: ast.expr | None = None
    for node in sorted(above, key=lambda node: node.lineno):  # type: ignore[attr-defined]
        match node:
            case ast.Assign(value=value):
                targets: list[ast.expr] = node.targets
            case ast.AugAssign(target=target, value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
                targets = [target]
            case ast.For(target=target, iter=value):
                targets = [target]
            case _:
                continue
        names = [part for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]
        found = value if any(part.id == name for part in names) else found
    return found
