"""The near side of the boundary: what a test holds. `learner.softmax(x)` asks the far side; everything comes back by value or as a handle."""

from __future__ import annotations

import inspect
import math
import textwrap
import time
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import torch
from grader.execution.errors import ChapterBroken, HostDied, LearnerError, RuleBroken, Todo, Where, mirrored, printable
from grader.execution.values import CannotCross, pack, unpack
from torch import Tensor


@dataclass(frozen=True)
class Exchange:
    """One thing asked and what came back, packed: enough to ask another implementation the same."""

    op: str
    tree: Any
    buffers: list[bytes]
    reply: dict
    out: list[bytes]


@dataclass(frozen=True)
class Call:
    """The last call in words a learner can read: "softmax", its arguments, and what came back."""

    what: str
    args: tuple
    options: dict
    result: Any = None


class HostConnection(Protocol):
    """Something that carries a question to the far side: in process, or over a socket."""

    shortcuts: set[str]  # forbidden names that were reported on the way to the answers, since somebody cleared them
    import_shortcuts: set[str]  # those that were reported while the chapter was imported; they stay

    def exchange(self, op: str, tree: Any, buffers: list[bytes]) -> tuple[dict, list[bytes]]: ...

    def abandon(self) -> None:
        """It talks nonsense: begin the next example with another."""

    def close(self) -> None: ...

    @property
    def bytes_received(self) -> int:
        """How many bytes it has sent in this example, about."""


class BoundaryLike(Protocol):
    """What an implementation needs of its boundary."""

    def ask(self, op: str, *arguments: Any, path: str = "") -> Any: ...


class Boundary:
    """Asks one host, turns its errors into exceptions, and keeps a log of the current example."""

    def __init__(self, connection: HostConnection) -> None:
        self.connection = connection
        self.log: list[Exchange] = []
        self.last_call: Call | None = None
        self.loaded = False
        self.spent = 0.0  # seconds in which the far side was at work on questions

    def begin(self, seed: int, forbidden: tuple[str, ...] = (), differentiable: bool = False) -> None:
        """A new example: handles of the last are void, chance starts anew, the log is empty."""
        self.log, self.last_call, spent = [], None, self.spent
        self.ask("begin", seed, list(forbidden), differentiable)
        if not self.loaded:
            self._load()
            self.ask("begin", seed, list(forbidden), differentiable)
        self.log, self.spent = [], spent  # getting ready is not the code's own time

    def _load(self) -> None:
        try:
            self.ask("load")
        except LearnerError as problem:
            raise ChapterBroken(f"{problem.type_name}: {problem.message}", problem.where) from None
        except Todo:
            raise ChapterBroken("NotImplementedError while importing: a stub is called at the top level of the module") from None
        self.loaded = True

    def ask(self, op: str, *arguments: Any, path: str = "") -> Any:
        tree, buffers = pack(list(arguments), _handle_of)
        began = time.monotonic()
        try:
            reply, out = self.connection.exchange(op, tree, buffers)
        finally:
            self.spent += time.monotonic() - began
        self.log.append(Exchange(op, tree, buffers, reply, out))
        try:
            if "value" in reply:
                return unpack(reply["value"], out, lambda handle: Handle(self, [int(handle[0]), printable(handle[1], 80)], path))
            problem = _exception(reply["error"])
        except (CannotCross, KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError) as garbage:
            self.connection.abandon()
            raise HostDied(f"the answer makes no sense ({printable(garbage, 200)})") from None
        raise problem


def _asked_by_tools(name: str) -> bool:
    """Names that Python and hypothesis look for on any object they meet; no learner defines them."""
    return name.startswith(("__", "hypothesis_internal")) or name in ("execute_example", "setup_example", "teardown_example")


def _exception(error: dict) -> BaseException:
    kind, type_name, message = error["kind"], printable(error["type"], 80), printable(error["message"], 600)
    if kind == "todo":
        return Todo(message)
    where = None
    if error["where"]:
        file, line, code = error["where"]
        where = Where(printable(file, 100), int(line), printable(code, 160))
    if kind == "rule":
        return RuleBroken(type_name, message, where)
    return mirrored(str(error.get("builtin")))(type_name, message, where)


def _handle_of(value: Any) -> list:
    if isinstance(value, Handle):
        return object.__getattribute__(value, "_handle")
    raise TypeError(f"a test cannot hand a {type(value).__name__} through the door; `bring` its source instead")


class Implementation:
    """Whoever is behind the boundary: each attribute is a name of the chapter."""

    def __init__(self, boundary: BoundaryLike) -> None:
        self._boundary = boundary

    def __getattr__(self, name: str) -> Any:
        if _asked_by_tools(name):
            raise AttributeError(name)
        return self._boundary.ask("get", name, path=name)

    def bring(self, helper: Any) -> Any:
        """Define a small self-contained function or class of the test on the far side (it may use torch, nn, F, math)."""
        return self._boundary.ask("bring", helper.__name__, _source_of(helper), path=helper.__name__)


@cache
def _source_of(helper: Any) -> str:
    return textwrap.dedent(inspect.getsource(helper))


class Handle:
    """An object on the far side: call it, read or set an attribute, index it, hand it back as an argument."""

    def __init__(self, boundary: Boundary, handle: list, path: str) -> None:
        object.__setattr__(self, "_boundary", boundary)
        object.__setattr__(self, "_handle", handle)
        object.__setattr__(self, "_path", path or handle[1])

    def __call__(self, *args: Any, **options: Any) -> Any:
        boundary, what = self._boundary, self._path
        boundary.last_call = Call(what, args, options)
        result = boundary.ask("call", self, args, options, path=_called(what, args, options))
        boundary.last_call = Call(what, args, options, result)
        return result

    def __getattr__(self, name: str) -> Any:
        if _asked_by_tools(name):
            raise AttributeError(name)
        return self._boundary.ask("attribute", self, name, path=f"{self._path}.{name}")

    def __setattr__(self, name: str, value: Any) -> None:
        self._boundary.ask("set_attribute", self, name, value)

    def __getitem__(self, index: Any) -> Any:
        return self._boundary.ask("item", self, index, path=f"{self._path}[{index}]")

    def __setitem__(self, index: Any, value: Any) -> None:
        self._boundary.ask("set_item", self, index, value)

    def __len__(self) -> int:
        return self._boundary.ask("len", self)

    def __iter__(self):
        return iter(self._boundary.ask("list", self, path=f"{self._path}[…]"))

    def __contains__(self, item: Any) -> bool:
        return self._boundary.ask("contains", self, item)

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Handle) and self._boundary is other._boundary and self._handle[0] == other._handle[0]

    def __hash__(self) -> int:
        return hash(self._handle[0])

    def __repr__(self) -> str:
        return self._path if self._path == self._handle[1] else f"<{self._path}>"  # the name of a function or class alone says enough


def _called(what: str, args: tuple, options: dict) -> str:
    """`MultiHeadAttention(6, 2)`: a call as the name of what it returns, short arguments only."""
    parts = [_brief(value) for value in args] + [f"{name}={_brief(value)}" for name, value in options.items()]
    return f"{what}({', '.join(parts)})"


def _brief(value: Any) -> str:
    if isinstance(value, bool | int | float | str | type(None)):
        text = repr(value)
        return text if len(text) <= 20 else text[:17] + "…"
    return "…"


# ---- the few things a test does besides calling


@dataclass(frozen=True)
class Gradients:
    output: Any
    inputs: list[Tensor | None]
    parameters: dict[str, Tensor | None]


def gradients(f: Handle, *inputs: Any, cotangent: Tensor | None = None, **options: Any) -> Gradients:
    """Run `f` with gradient on the far side; see grader/execution/gradients.py. What the output does not depend on has None."""
    boundary, what = f._boundary, f._path
    boundary.last_call = Call(what, inputs, options)
    found = boundary.ask("gradients", f, list(inputs), options, cotangent, path=_called(what, inputs, options))
    boundary.last_call = Call(what, inputs, options, found["output"])
    return Gradients(found["output"], found["inputs"], found["parameters"])


def parameters(module: Handle) -> dict[str, Tensor]:
    return _asked_of(module, "parameters")


def state(module: Handle) -> dict[str, Tensor]:
    return _asked_of(module, "state")


def buffers(module: Handle) -> dict[str, Tensor]:
    return _asked_of(module, "buffers")


def load(module: Handle, values: dict[str, Tensor]) -> None:
    """Copy values into the parameters of these names; a missing or misshapen one is told to the learner."""
    _asked_of(module, "fill", values)


def randomise(module: Handle, seed: int, scale: float = 1.0) -> dict[str, Tensor]:
    """Every parameter random: matrices N(0, scale²/fan_in), vectors N(0, scale²); returns the values, to `load` elsewhere.

    The values depend on the seed and on the names and shapes, and not on the order in which parameters were made. What the module was
    initialised with is not even asked: it would make every author's answers different, and no mistake could be recognised.
    """
    values = {}
    for name, (shape, dtype) in sorted(_asked_of(module, "shapes").items()):
        generator = torch.Generator().manual_seed(seed * 1009 + sum(map(ord, name)))
        fan_in = shape[-1] if len(shape) > 1 else 1
        drawn = torch.randn(shape, generator=generator, dtype=torch.float64) * scale / math.sqrt(fan_in)
        values[name] = drawn.to(dtype)
    load(module, values)
    return values


def _asked_of(module: Any, op: str, *arguments: Any) -> Any:
    if not isinstance(module, Handle):
        raise RuleBroken("Rule", f"a {type(module).__name__} came back where an nn.Module belongs")
    return module._boundary.ask(op, module, *arguments)
