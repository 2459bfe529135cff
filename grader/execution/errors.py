"""What a request across the boundary can raise instead of returning an answer.

`LearnerError` and its subclasses are ordinary exceptions: a test may expect them, hypothesis may shrink them. The
others end the test at once.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

# called before work that may take up to so many seconds, for a process that waits with a deadline
ExtendDeadline = Callable[[float], None]


@dataclass(frozen=True)
class Where:
    """A line of the learner's own file."""

    file: str
    line: int
    code: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}" + (f":  {self.code}" if self.code else "")


class LearnerError(Exception):
    """The learner's code raised an exception: its type, its message, and the last line of the learner's file in the
    traceback."""

    def __init__(self, type_name: str, message: str, where: Where | None = None) -> None:
        super().__init__(message)
        self.type_name, self.message, self.where = type_name, message, where
        self.call: Any = None  # the proxy's Call that raised it
        self.note = ""  # a sentence about it: which name was meant, which function calls itself


class RuleBroken(LearnerError):
    """The code ran and broke a rule for all calls: it changed an argument, left a thread running, or returned a value
    that cannot cross."""


class WrongResult(RuleBroken):
    """A result that the kit cannot use to continue, because its shape is wrong; the message is a whole sentence."""


class Todo(BaseException):
    """A stub raised NotImplementedError; the message names the stub if it is known."""


class OutOfTime(BaseException):
    """A call did not end in time; `where` is the line of the learner's file that it was at."""

    def __init__(self, message: str = "", where: Where | None = None) -> None:
        super().__init__(message)
        self.where = where


class HostDied(BaseException):
    """The host's process ended or sent malformed answers; the message says how."""


class NoWorker(HostDied):
    """No process for the code could be started, or none in its sandbox. The code did not cause that."""


class ChapterBroken(BaseException):
    """The chapter does not import: the line, and whether the import ran out of time."""

    def __init__(self, message: str, where: Where | None = None, timed_out: bool = False, note: str = "") -> None:
        super().__init__(message)
        self.message, self.where, self.timed_out, self.note = message, where, timed_out, note


_MIRRORED = ("KeyError", "IndexError", "LookupError", "ZeroDivisionError", "OverflowError", "ArithmeticError",
"RecursionError", "RuntimeError",
             "ValueError", "TypeError", "AssertionError", "AttributeError")  # fmt: skip
_BUILTINS = tuple(getattr(builtins, name) for name in _MIRRORED)


def builtin_kind(problem: BaseException) -> str:
    """The builtin of _MIRRORED that an exception is or inherits from: "ValueError" for a learner's `class
    ShapeError(ValueError)`."""
    # a metaclass of the learner's could change what isinstance says
    bases = type.__dict__["__mro__"].__get__(type(problem))
    return next((kind.__name__ for kind in _BUILTINS if any(base is kind for base in bases)), "")


def mirrored(kind: str) -> type[LearnerError]:
    """LearnerError, or a subclass that also inherits from the builtin of that name, so that `pytest.raises(ValueError)`
    reads as usual."""
    return _mirror_of(kind) if kind in _MIRRORED else LearnerError


@cache
def _mirror_of(kind: str) -> type[LearnerError]:
    return type(kind, (LearnerError, getattr(builtins, kind)), {"__str__": Exception.__str__})


_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~])?")


def printable(text: Any, length: int) -> str:
    """The text, cut to this length and without terminal control sequences; it comes from the learner."""
    return "".join(
        c if c.isprintable() or c in "\n\t" else "\ufffd" for c in _ESCAPES.sub("", str(text)[: 2 * length])
    )[:length]


def message_of(problem: BaseException) -> str:
    """The message of the learner's exception, cut; reading it may itself fail."""
    try:
        text = problem.args[0] if isinstance(problem, KeyError) and problem.args else str(problem)
        return str(text)[:1200]
    except BaseException:
        return "(its message cannot be read)"


def exception_of(error: dict) -> BaseException:
    """The exception for an error that the host describes; it may be malformed."""
    kind, type_name, message = error["kind"], printable(error["type"], 80), printable(error["message"], 600)
    if kind == "todo":
        return Todo(message)
    where = None
    if error["where"]:
        file, line, code = error["where"]
        where = Where(printable(file, 100), int(line), printable(code, 160))
    if kind == "rule":
        return RuleBroken(type_name, message, where)
    problem = mirrored(str(error.get("builtin")))(type_name, message, where)
    problem.note = " ".join(printable(error.get("note", ""), 200).split())
    return problem
