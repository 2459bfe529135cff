"""What a test can meet at the door instead of an answer.

`LearnerError` and its kin are ordinary exceptions: a law may expect them, hypothesis may shrink them. The others end the test at once.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

ExtendDeadline = Callable[[float], None]  # told before whatever may take up to so many seconds: whoever waits for a sign of life


@dataclass(frozen=True)
class Where:
    """A line of the learner's own file."""

    file: str
    line: int
    code: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}" + (f":  {self.code}" if self.code else "")


class LearnerError(Exception):
    """The learner's code raised; `type_name` and `message` are its own, `where` the last line of theirs on the way."""

    def __init__(self, type_name: str, message: str, where: Where | None = None) -> None:
        super().__init__(message)
        self.type_name, self.message, self.where = type_name, message, where


class RuleBroken(LearnerError):
    """The code ran, and did what no call may: change an argument, leave a thread running, return what cannot cross."""


class Todo(BaseException):
    """A stub's NotImplementedError; the message says which stub, where there is one."""


class OutOfTime(BaseException):
    """A call did not end in time."""


class HostDied(BaseException):
    """The process on the far side is gone, or talks nonsense; the message says how it ended."""


class NoWorker(HostDied):
    """There is no process for the code: none could be started, or none with its walls. That is no fault of the code."""


class ChapterBroken(BaseException):
    """The chapter does not import. `where` is the line; `timed_out` when it never finished."""

    def __init__(self, message: str, where: Where | None = None, timed_out: bool = False) -> None:
        super().__init__(message)
        self.message, self.where, self.timed_out = message, where, timed_out


_MIRRORED = ("KeyError", "IndexError", "LookupError", "ZeroDivisionError", "OverflowError", "ArithmeticError", "RecursionError", "RuntimeError",
             "ValueError", "TypeError", "AssertionError", "AttributeError")  # fmt: skip
_BUILTINS = tuple(getattr(builtins, name) for name in _MIRRORED)


def builtin_kind(problem: BaseException) -> str:
    """The mirrored builtin that an exception is, if need be by inheritance: "ValueError" for a learner's `class ShapeError(ValueError)`."""
    bases = type.__dict__["__mro__"].__get__(type(problem))  # a learner's metaclass has no say in it
    return next((kind.__name__ for kind in _BUILTINS if any(base is kind for base in bases)), "")


def mirrored(kind: str) -> type[LearnerError]:
    """LearnerError as a subclass of the builtin of that name too, so that `pytest.raises(ValueError)` reads as usual."""
    return _mirror_of(kind) if kind in _MIRRORED else LearnerError


@cache
def _mirror_of(kind: str) -> type[LearnerError]:
    return type(kind, (LearnerError, getattr(builtins, kind)), {"__str__": Exception.__str__})


_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~])?")


def printable(text: Any, length: int) -> str:
    """The learner's words, cut, and without what would command a terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in _ESCAPES.sub("", str(text)[: 2 * length]))[:length]


def message_of(problem: BaseException) -> str:
    """What an exception of the learner's says, cut; it may be unable to say anything."""
    try:
        text = problem.args[0] if isinstance(problem, KeyError) and problem.args else str(problem)
        return str(text)[:1200]
    except BaseException:
        return "(its message cannot be read)"
