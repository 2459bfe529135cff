"""The tests' side of the boundary: `learner.softmax(x)` sends a request to the host and gets a value or a handle.

None, numbers, strings, bytes, lists, tuples, dicts, tensors, dtypes and devices cross the boundary by copy. Any other
object is a handle that can be called, indexed, read and handed back. `parameters`, `state`, `buffers`, `load`,
`randomise` and `gradients` work on a module's handle, and `learner.bring(helper)` sends a small helper to the
other side.
"""

from __future__ import annotations

import inspect
import math
import sys
import textwrap
import time
from dataclasses import dataclass, field
from functools import cache
from types import FrameType
from typing import Any

import torch
from grader.execution.connection import Exchange, HostConnection
from grader.execution.errors import (
    ChapterBroken,
    HostDied,
    LearnerError,
    RuleBroken,
    Todo,
    WrongResult,
    exception_of,
    printable,
)
from grader.execution.example_requests import ExampleRequests, RecordedExample
from grader.execution.values import pack, unpack
from torch import Tensor

# ---- the record of what a test did, for the explanation of a failure


@dataclass(eq=False)
class Call:
    """A call of the implementation, as a failure message shows it: "softmax", its arguments, and the result."""

    what: str
    args: tuple
    options: dict
    result: Any = None
    callee: Any = None  # the handle that was called
    # where the test made the call: file and line, innermost frame first
    lines: list[tuple[str, int]] = field(default_factory=list)
    returned_none: bool = False
    number: int = -1  # of its request in this example; the host uses the same numbers
    position: int = -1  # of its request in the boundary's log

    @property
    def is_helpers(self) -> bool:
        """Was a helper of the test called, and not the implementation?"""
        return self.callee is not None and self.callee._is_helper


class ObjectName(str):
    """The name of an object that cannot cross the boundary, shown for an argument in the text of a call."""

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True)
class Reading:
    """A value that the test read from an object: an attribute, an item, the parameters."""

    value: Any
    owner: Any
    calls_before: int
    position: int = -1  # of its request in the boundary's log


def test_lines() -> list[tuple[str, int]]:
    """The files and lines of the frames that made the current call, innermost first."""
    frame: FrameType | None = sys._getframe(3)
    found: list[tuple[str, int]] = []
    while frame is not None and len(found) < 6:
        found.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return found


def called(what: str, args: tuple, options: dict) -> str:
    """`MultiHeadAttention(6, 2)`: a call as the name of what it returns, short arguments only."""
    parts = [_brief(value) for value in args] + [f"{name}={_brief(value)}" for name, value in options.items()]
    return f"{what}({', '.join(parts)})"


def _brief(value: Any) -> str:
    if isinstance(value, bool | int | float | str | type(None)):
        text = repr(value)
        return text if len(text) <= 20 else text[:17] + "…"
    return "…"


# ---- the boundary


class Boundary:
    """Sends requests to one host, turns its errors into exceptions, and logs the current example."""

    def __init__(self, connection: HostConnection, replaced: tuple[str, ...] = ()) -> None:
        self.connection = connection
        self.example = ExampleRequests(connection)
        self.replaced = replaced  # exercises of the chapter whose definitions are the reference's
        self.names: set[str] = set()  # of the implementation that tests have used
        self.log: list[Exchange] = []
        self.calls: list[Call] = []  # of the current example
        self.readings: list[Reading] = []
        self.requests = 0  # calls of this example
        # the request that is running, or that ended the example without a reply
        self.unanswered: tuple[str, Any, list[bytes]] | None = None
        self.loaded = False
        self.spent = 0.0  # seconds that the host has worked on requests

    def begin(self, seed: int, forbidden: tuple[str, ...] = (), differentiable: bool = False) -> None:
        """Begin a new example: handles of the last one become invalid, the random generators are seeded, the log is
        empty."""
        self.log, self.calls, self.readings, self.requests, spent = [], [], [], 0, self.spent
        self.unanswered = None
        self.ask("begin", seed, list(forbidden), differentiable)
        if not self.loaded:
            self._load()
            self.ask("begin", seed, list(forbidden), differentiable)
        self.log, self.spent = [], spent  # preparing does not count as time of the code

    def send_ahead(self, recorded: RecordedExample) -> bool:
        """After `begin`: send the recorded requests before the test makes them. True if it need not run, because all
        replies are the recorded ones."""
        began = time.monotonic()
        try:
            found = self.example.send_ahead(recorded)
        finally:
            self.spent += time.monotonic() - began
        if found:
            self.log = recorded.learner
        return found

    def _load(self) -> None:
        try:
            self.ask("load")
        except LearnerError as problem:
            raise ChapterBroken(f"{problem.type_name}: {problem.message}", problem.where, note=problem.note) from None
        except Todo:
            raise ChapterBroken(
                "NotImplementedError while importing: a stub is called at the top level of the module"
            ) from None
        self.loaded = True

    def ask(self, op: str, *arguments: Any, path: str = "") -> Any:
        """Send a request to the host, log it with its reply, and return the value or handle."""
        tree, buffers = pack(list(arguments), _handle_of)
        self.unanswered = op, tree, buffers
        began = time.monotonic()
        try:
            reply, out = self.example.exchange(op, tree, buffers)
        finally:
            self.spent += time.monotonic() - began
        self.unanswered = None
        self.log.append(Exchange(op, tree, buffers, reply, out))
        try:
            if "value" in reply:
                return unpack(
                    reply["value"], out, lambda handle: Handle(self, [int(handle[0]), printable(handle[1], 80)], path)
                )
            problem = exception_of(reply["error"])
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError) as garbage:
            self.connection.abandon()
            raise HostDied(f"the reply is malformed ({printable(garbage, 200)})") from None
        raise problem

    def call(self, what: str, op: str, callee: Handle, args: tuple, options: dict, request: tuple) -> Any:
        """Send a request that runs a function of the implementation, and record the call."""
        call = Call(what, args, options, None, callee, test_lines())
        self.calls.append(call)
        self.requests += 1
        call.number, call.position = self.requests, len(self.log)
        try:
            result = self.ask(op, *request, path=called(what, args, options))
        except LearnerError as problem:
            problem.call = call
            raise
        call.result, call.returned_none = result, result is None
        if isinstance(result, Handle) and callee._is_helper:  # an object that a helper of the test has made
            object.__setattr__(result, "_is_helper", True)
            object.__setattr__(result, "_path", f"{result._handle[1]}(…)")
        return result

    def read(self, owner: Handle, op: str, *arguments: Any, path: str = "") -> Any:
        """Send a request that reads a value from an object, and record which object it came from."""
        position = len(self.log)
        result = self.ask(op, owner, *arguments, path=path)
        self.readings.append(Reading(result, owner, len(self.calls), position))
        return result

    def unrecorded(self, op: str, *arguments: Any) -> Any:
        """The answer to a request that is not in the log, so the diagnosis does not compare it."""
        reply, out = self.connection.exchange(op, *pack(list(arguments), _handle_of))
        return unpack(reply["value"], out, lambda handle: ObjectName(printable(handle[1], 80)))


def _is_tool_lookup(name: str) -> bool:
    """Is this a name that Python and hypothesis look up on any object, and that no learner defines?"""
    of_hypothesis = ("execute_example", "setup_example", "teardown_example")
    return name.startswith(("__", "hypothesis_internal")) or name in of_hypothesis


def _handle_of(value: Any) -> list:
    if isinstance(value, Handle):
        return object.__getattribute__(value, "_handle")
    raise TypeError(f"a {type(value).__name__} cannot cross the boundary; `bring` its source instead")


class Implementation:
    """The implementation behind a boundary: each attribute is a name of the chapter."""

    def __init__(self, boundary: Any) -> None:
        self._boundary = boundary

    def __getattr__(self, name: str) -> Any:
        if _is_tool_lookup(name):
            raise AttributeError(name)
        self._boundary.names.add(name)
        return self._boundary.ask("get", name, path=name)

    def bring(self, helper: Any) -> Any:
        """Define a small self-contained function or class of the test in the host (it may use torch, nn, F, math)."""
        brought = self._boundary.ask("bring", helper.__name__, _source_of(helper), path=helper.__name__)
        object.__setattr__(brought, "_is_helper", True)
        return brought


@cache
def _source_of(helper: Any) -> str:
    return textwrap.dedent(inspect.getsource(helper))


class Handle:
    """An object in the host: call it, read or set an attribute, index it, hand it back as an argument."""

    def __init__(self, boundary: Boundary, handle: list, path: str) -> None:
        object.__setattr__(self, "_boundary", boundary)
        object.__setattr__(self, "_handle", handle)
        object.__setattr__(self, "_path", path or handle[1])
        object.__setattr__(self, "_owner", None)  # of a method: its object
        object.__setattr__(self, "_is_helper", False)  # is it a helper of the test, and not the implementation's?

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._boundary.call(self._path, "call", self, args, options, (self, args, options))

    def __getattr__(self, name: str) -> Any:
        if _is_tool_lookup(name):
            raise AttributeError(name)
        found = self._boundary.read(self, "attribute", name, path=f"{self._path}.{name}")
        if isinstance(found, Handle):
            object.__setattr__(found, "_owner", self)
            object.__setattr__(found, "_is_helper", self._is_helper)
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        self._boundary.ask("set_attribute", self, name, value)

    def __getitem__(self, index: Any) -> Any:
        return self._boundary.read(self, "item", index, path=f"{self._path}[{index}]")

    def __setitem__(self, index: Any, value: Any) -> None:
        self._boundary.ask("set_item", self, index, value)

    def __len__(self) -> int:
        return self._boundary.ask("len", self)

    def __iter__(self):
        return iter(self._boundary.read(self, "list", path=f"{self._path}[…]"))

    def __contains__(self, item: Any) -> bool:
        return self._boundary.ask("contains", self, item)

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Handle) and self._boundary is other._boundary and self._handle[0] == other._handle[0]

    def __hash__(self) -> int:
        return hash(self._handle[0])

    def __repr__(self) -> str:
        if self._owner is not None and self._path.rpartition(".")[2] == self._handle[1]:
            return f"<{self._path}, a method without @property>"  # where a value is expected
        # the name of a function or class is enough
        return self._path if self._path == self._handle[1] else f"<{self._path}>"


# ---- what a test does besides calls


@dataclass(frozen=True)
class Gradients:
    output: Any
    inputs: list[Tensor | None]
    parameters: dict[str, Tensor | None]


def gradients(f: Handle, *inputs: Any, cotangent: Tensor | None = None, **options: Any) -> Gradients:
    """Run `f` with gradient in the host; see grader/execution/host.py. The gradient of what the output does not
    depend on is None."""
    found = f._boundary.call(f._path, "gradients", f, inputs, options, (f, list(inputs), options, cotangent))
    call = f._boundary.calls[-1]
    call.result, call.returned_none = found["output"], found["output"] is None
    f._boundary.readings.append(Reading(found, f, len(f._boundary.calls), call.position))
    _check_shape(found["output"], cotangent, call)
    return Gradients(found["output"], found["inputs"], found["parameters"])


def _check_shape(output: Any, cotangent: Tensor | None, call: Call) -> None:
    """The cotangent has the shape of a right result; one of another shape is the mistake, and has no gradients to
    compare."""
    first = output[0] if isinstance(output, tuple | list) and output else output
    if cotangent is not None and isinstance(first, Tensor) and first.shape != cotangent.shape:
        problem = WrongResult(
            "Rule", f"The result has shape {tuple(first.shape)}; it should be {tuple(cotangent.shape)}"
        )
        problem.call = call
        raise problem


def parameters(module: Handle) -> dict[str, Tensor]:
    return _ask_module(module, "parameters")


def state(module: Handle) -> dict[str, Tensor]:
    return _ask_module(module, "state")


def buffers(module: Handle) -> dict[str, Tensor]:
    return _ask_module(module, "buffers")


def load(module: Handle, values: dict[str, Tensor]) -> None:
    """Copy values into the parameters with these names; a missing name or a wrong shape is an error that the learner
    sees."""
    _ask_module(module, "fill", values)


def randomise(module: Handle, seed: int, scale: float = 1.0) -> dict[str, Tensor]:
    """Every parameter random: matrices N(0, scale²/fan_in), vectors N(0, scale²); returns the values, to `load`
    elsewhere.

    The values depend on the seed, the names and the shapes, not on the order in which parameters were created. The
    module's initial values are not requested: they differ between authors, so the diagnosis could not compare the log
    with that of a known mistake.
    """
    values = {}
    for name, (shape, dtype) in sorted(_ask_module(module, "shapes").items()):
        generator = torch.Generator().manual_seed(seed * 1009 + sum(map(ord, name)))
        fan_in = shape[-1] if len(shape) > 1 else 1
        drawn = torch.randn(shape, generator=generator, dtype=torch.float64) * scale / math.sqrt(fan_in)
        values[name] = drawn.to(dtype)
    load(module, values)
    return values


def _ask_module(module: Any, op: str, *arguments: Any) -> Any:
    if not isinstance(module, Handle):
        raise RuleBroken("Rule", f"the result is a {type(module).__name__}, where an nn.Module is expected")
    return module._boundary.read(module, op, *arguments)
