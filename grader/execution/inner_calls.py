"""Notes which calls of the learner's code a helper of the test makes, so that a failure shows the learner's own
function and its arguments.

This stays a file of its own: a helper of chapter 12's tests looks past its frames, which it finds by the file's name.
"""

from __future__ import annotations

import ast
import builtins
import re
import threading
from collections.abc import Callable
from functools import lru_cache
from types import CodeType
from typing import Any

_NO_OPERATOR = re.compile("unsupported operand type|not supported between|bad operand type")
NOTE = "_headway_call"  # the name under which an instrumented helper finds `call_and_note`
NOTE_STATEMENT = "_headway_statement"  # the same for a call whose result is not used, such as `result.backward()`


class _CallsThroughNote(ast.NodeTransformer):
    """Rewrites `f(x)` as `_headway_call(f, x)`; calls of builtins stay, because `super()` and `locals()` depend on
    their frame."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name) and node.value.func.id == NOTE:
            node.value.func.id = NOTE_STATEMENT
        return node

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and hasattr(builtins, node.func.id):
            return node
        return ast.copy_location(ast.Call(ast.Name(NOTE, ast.Load()), [node.func, *node.args], node.keywords), node)


@lru_cache(maxsize=256)
def compile_helper(source: str, filename: str) -> CodeType:
    """The helper's source, compiled so that each of its calls goes through the function NOTE."""
    tree = ast.parse(source, filename)
    for definition in tree.body:
        if isinstance(definition, ast.FunctionDef | ast.ClassDef) and not _is_watch(definition):
            definition.body = [_CallsThroughNote().visit(statement) for statement in definition.body]
    return compile(ast.fix_missing_locations(tree), filename, "exec")


def _is_watch(definition: ast.FunctionDef | ast.ClassDef) -> bool:
    """Whether it runs at each of torch's operators: then it must be fast, and calls nothing else of the learner's."""
    return any(isinstance(part, ast.FunctionDef) and part.name == "__torch_dispatch__" for part in definition.body)


class InnerCalls:
    """The last call of the learner's code in each call of this example."""

    def __init__(self, runs_learners_code: Callable[[Any], bool]) -> None:
        self.runs_learners_code = runs_learners_code
        self.number = 0  # of the running call
        # name, arguments, and whether its caller got None as a value
        self.last: dict[int, tuple[str, tuple, dict, bool]] = {}
        # the last one in another thread, such as a rank's, which goes on in later calls
        self.last_in_thread: tuple = ()
        self.thread = 0
        self.is_running = False

    def clear(self) -> None:
        self.number = 0
        self.is_running = False
        self.last.clear()
        self.last_in_thread = ()

    def begin(self) -> None:
        """Begin the next call of this example, in this thread."""
        self.number += 1
        self.thread = threading.get_ident()

    def find(self, number: int) -> tuple:
        """The last call of the learner's code in the call with this number; () if there was none."""
        return self.last.get(number, self.last_in_thread)

    def call_and_note(self, target: Any, /, *args: Any, **options: Any) -> Any:
        return self._call(target, args, options, True)

    def call_statement(self, target: Any, /, *args: Any, **options: Any) -> Any:
        return self._call(target, args, options, False)

    def _call(self, target: Any, args: tuple, options: dict, is_value: bool) -> Any:
        if not self.runs_learners_code(target):
            return target(*args, **options)
        self._note(target, args, options, False)
        self.is_running = True  # stays so if the call raises an exception
        result = target(*args, **options)
        self.is_running = False
        if result is None and is_value:
            self._note(target, args, options, True)
        return result

    def _note(self, target: Any, args: tuple, options: dict, returned_none: bool) -> None:
        noted = self.last[self.number] = _name_of(target), args, options, returned_none
        if threading.get_ident() != self.thread:
            self.last_in_thread = noted

    def names(self) -> dict[str, Callable]:
        """What an instrumented helper needs among its names."""
        return {NOTE: self.call_and_note, NOTE_STATEMENT: self.call_statement}

    def forget_if_operator(self, problem: BaseException, is_raised_by_learners: bool) -> None:
        """Forget the last call of a helper that raised an exception, if it ended well and an operator of the learner's
        raised the exception or is missing."""
        if not self.is_running and (is_raised_by_learners or _NO_OPERATOR.search(str(problem))):
            self.last.pop(self.number, None)
            self.last_in_thread = ()
        self.is_running = False


def _name_of(target: Any) -> str:
    """`softmax`, `GPT(…)`, `AdamW(…).step`: a function, an object that is called, a method."""
    name, owner = getattr(target, "__name__", None), getattr(target, "__self__", None)
    if not isinstance(name, str):
        return f"{type(target).__name__}(…)"
    return name if owner is None or isinstance(owner, type) else f"{type(owner).__name__}(…).{name}"
