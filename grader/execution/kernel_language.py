"""The language of kernels: what the `tl` of a simulated GPU has, with the names and meanings of triton.language.

A program's memory is elsewhere: each read and each write is a message, which `grader.execution.simulated_gpu` answers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from grader.execution.simulated_group import RankThread
from torch import Tensor

FLOATS = (torch.float32, torch.float64)  # the dtypes of which tl computes exp, log and sqrt
UNDEFINED = -77  # what a mask without `other` leaves of integers; of fractions, it is nan


class KernelProblem(RuntimeError):
    """A program does what no GPU does, or what it does without saying so. The message says what and where."""


class _Indexed:
    """What blocks and pointers have in common: numbers that only the functions of tl may look at."""

    _t: Tensor

    def _like(self, t: Tensor) -> Any:
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._t.shape)

    def __getitem__(self, index: Any) -> Any:
        parts = index if isinstance(index, tuple) else (index,)
        if any(part is not None and not (isinstance(part, slice) and part == slice(None)) for part in parts):
            raise KernelProblem(f"{_name(self)} is indexed by : and None only; read from memory with tl.load")
        return self._like(self._t[index])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        has = ".shape and .dtype" if isinstance(self, Pointer) else ".to, .T, .shape and .dtype"
        raise KernelProblem(f"{_name(self)} has no .{name}, only {has}; a kernel computes with the functions of tl")

    def __repr__(self) -> str:
        return f"{_name(self)}: {self._t.tolist()}"

    def __iter__(self) -> Any:
        raise KernelProblem(f"{_name(self)} has no single numbers to go through; compute with all of them at once")

    @classmethod
    def __torch_function__(cls, function: Any, *_: Any) -> Any:
        name = getattr(function, "__name__", str(function))
        raise KernelProblem(f"torch's {name} cannot compute with a block; a kernel uses tl, which has {LANGUAGE}")


class Block(_Indexed):
    """Numbers that a program has read or computed; a block without axes is a single number."""

    def __init__(self, t: Tensor) -> None:
        self._t = t

    def _like(self, t: Tensor) -> Block:
        return Block(t)

    @property
    def dtype(self) -> torch.dtype:
        return self._t.dtype

    @property
    def T(self) -> Block:
        return Language.trans(self)

    def to(self, dtype: torch.dtype) -> Block:
        if not isinstance(dtype, torch.dtype):
            raise KernelProblem(f".to needs a dtype, such as tl.float32, and not {dtype!r}")
        return Block(self._t.to(dtype))

    def __bool__(self) -> bool:
        if self._t.dim():
            raise KernelProblem(
                f"if, while, and, or, min and max need one number, and this is {_name(self)}; use tl.where, & or |"
            )
        return bool(self._t)

    def __index__(self) -> int:
        if self._t.dim() or self._t.is_floating_point():
            raise KernelProblem(f"a whole number is needed here, and this is {_name(self)} of {_dtype(self._t)}")
        return int(self._t)

    def __float__(self) -> float:
        raise KernelProblem(f"math and float cannot compute with {_name(self)}; use functions of tl, such as tl.exp")

    def __neg__(self) -> Block:
        return Block(-self._t)

    def __invert__(self) -> Block:
        return Block(~self._t)

    def __pow__(self, _: Any) -> Block:
        raise KernelProblem("the language has no **; multiply instead")

    __hash__ = None  # type: ignore[assignment]


def _binary(function: Callable[[Any, Any], Tensor], swapped: bool = False) -> Callable[[Any, Any], Any]:
    def compute(self: Any, other: Any) -> Any:
        if isinstance(other, Pointer):
            return NotImplemented
        mine, theirs = _pair(self, other)
        try:
            return Block(function(theirs, mine) if swapped else function(mine, theirs))
        except RuntimeError:
            name = function.__name__.strip("_")
            raise KernelProblem(f"{name} of {_name(self)} and {_name(other)}: their shapes do not fit") from None

    return compute


for _operator in ("add", "sub", "mul", "truediv", "floordiv", "mod", "and", "or", "xor"):
    _function = getattr(operator, f"__{_operator}__")
    setattr(Block, f"__{_operator}__", _binary(_function))
    setattr(Block, f"__r{_operator}__", _binary(_function, swapped=True))
for _operator in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Block, f"__{_operator}__", _binary(getattr(operator, _operator)))


class Pointer(_Indexed):
    """Places in the memory of a tensor, each counted from its first number."""

    def __init__(self, number: int, dtype: torch.dtype, offsets: Tensor) -> None:
        self.number, self.dtype, self._t = number, dtype, offsets

    def _like(self, t: Tensor) -> Pointer:
        return Pointer(self.number, self.dtype, t)

    def __add__(self, other: Any) -> Pointer:
        mine, theirs = self._t, _tensor(other, torch.int64)
        if isinstance(other, Pointer) or theirs.is_floating_point():
            raise KernelProblem(f"a pointer plus {_name(other)} is no place: add whole numbers")
        return self._like(mine + theirs)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Pointer:
        return self + -other


class Language:
    """The tl of one program: what a kernel may do."""

    float32, float16, int32, int64, int8 = torch.float32, torch.float16, torch.int32, torch.int64, torch.int8

    def __init__(self, thread: RankThread, place: Sequence[int], grid: Sequence[int]) -> None:
        self._thread, self._place, self._grid = thread, place, grid

    def __getattr__(self, name: str) -> Any:
        raise KernelProblem(f"there is no tl.{name} here; tl has {LANGUAGE}")

    def program_id(self, axis: int) -> Block:
        return Block(torch.tensor(self._place[axis], dtype=torch.int32))

    def num_programs(self, axis: int) -> Block:
        return Block(torch.tensor(self._grid[axis], dtype=torch.int32))

    def arange(self, start: int, end: int) -> Block:
        _check_shape("arange", (end - start,))
        return Block(torch.arange(start, end, dtype=torch.int32))

    def zeros(self, shape: Sequence[int], dtype: torch.dtype) -> Block:
        return self.full(shape, 0, dtype)

    def full(self, shape: Sequence[int], value: float, dtype: torch.dtype) -> Block:
        _check_shape("full", shape)
        return Block(torch.full(tuple(shape), value, dtype=dtype))

    def load(self, pointer: Pointer, mask: Any = None, other: Any = None) -> Block:
        at, wanted = _places("load", pointer, mask)
        got = self._thread.ask("load", (pointer.number, at, wanted), None)
        # without `other`, what a mask leaves out is not defined: numbers that spoil a result
        outside = other if other is not None else float("nan") if pointer.dtype.is_floating_point else UNDEFINED
        return Block(torch.where(wanted, got, _tensor(outside, pointer.dtype).to(pointer.dtype)))

    def store(self, pointer: Pointer, value: Any, mask: Any = None) -> None:
        at, wanted = _places("store", pointer, mask)
        numbers = _tensor(value, pointer.dtype).to(pointer.dtype)
        numbers = _expand(numbers, at, f"tl.store has {_name(pointer)} for {_name(value)}")
        self._thread.ask("store", (pointer.number, at, wanted, numbers), None)

    def dot(self, a: Block, b: Block, acc: Any = None, input_precision: str | None = None) -> Block:
        x, y = a._t, b._t
        if x.dim() != 2 or y.dim() != 2 or x.size(1) != y.size(0) or x.dtype != y.dtype:
            both = f"{_name(a)} of {_dtype(x)} and {_name(b)} of {_dtype(y)}"
            raise KernelProblem(f"tl.dot multiplies (m, k) by (k, n) of the same dtype, and not {both}")
        self._thread.calls.append(("dot", 2 * x.size(0) * x.size(1) * y.size(1), None))
        wide = torch.int32 if not x.is_floating_point() else torch.promote_types(x.dtype, torch.float32)
        result = Block(x.to(wide) @ y.to(wide))
        return result if acc is None else acc + result

    @staticmethod
    def trans(x: Block) -> Block:
        if x._t.dim() != 2:
            raise KernelProblem(f"tl.trans exchanges two axes, and this is {_name(x)}")
        return Block(x._t.T)

    @staticmethod
    def max(x: Block, axis: int | None = None) -> Block:
        return Block(x._t.amax() if axis is None else x._t.amax(axis))

    @staticmethod
    def sum(x: Block, axis: int | None = None) -> Block:
        kind = x._t.dtype if x._t.is_floating_point() else torch.int32
        return Block(x._t.sum(dtype=kind) if axis is None else x._t.sum(axis, dtype=kind))

    def exp(self, x: Block) -> Block:
        return Block(torch.exp(_float("exp", x)))

    def log(self, x: Block) -> Block:
        return Block(torch.log(_float("log", x)))

    def sqrt(self, x: Block) -> Block:
        return Block(torch.sqrt(_float("sqrt", x)))

    @staticmethod
    def abs(x: Block) -> Block:
        return Block(x._t.abs())

    @staticmethod
    def where(condition: Any, x: Any, y: Any) -> Block:
        return Block(torch.where(_tensor(condition, torch.bool), *_pair(x, y)))

    maximum = staticmethod(_binary(torch.maximum))
    minimum = staticmethod(_binary(torch.minimum))

    @staticmethod
    def cdiv(a: Any, b: Any) -> Any:
        return -(-a // b)


LANGUAGE = ", ".join(name for name in vars(Language) if not name.startswith("_"))


def _pair(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Both as tensors of one dtype: a plain number takes the dtype of a block, except a fraction that of integers."""
    if not isinstance(x, Block) and isinstance(y, Block):
        y, x = _pair(y, x)
        return x, y
    mine = _tensor(x, torch.float32)
    theirs = _tensor(y, mine.dtype)
    kind = torch.promote_types(mine.dtype, theirs.dtype)
    return mine.to(kind), theirs.to(kind)


def _tensor(x: Any, dtype: torch.dtype) -> Tensor:
    if isinstance(x, _Indexed):
        return x._t
    if not isinstance(x, bool | int | float):
        raise KernelProblem(f"a kernel computes with blocks and numbers, and this is {_name(x)}")
    return torch.tensor(x, dtype=torch.float32 if isinstance(x, float) and not dtype.is_floating_point else dtype)


def _float(name: str, x: Any) -> Tensor:
    t = _tensor(x, torch.float32)
    if t.dtype not in FLOATS:
        raise KernelProblem(f"tl.{name} is for float32, and this is {_name(x)} of {_dtype(t)}; convert it by .to")
    return t


def _check_shape(name: str, shape: Sequence[int]) -> None:
    for size in shape:
        if size < 1 or size & (size - 1):
            raise KernelProblem(f"tl.{name} makes a block of {tuple(shape)}; each size of a block is a power of two")


def _places(name: str, pointer: Any, mask: Any) -> tuple[Tensor, Tensor]:
    if not isinstance(pointer, Pointer):
        raise KernelProblem(f"tl.{name} needs a pointer, such as x + offsets, and this is {_name(pointer)}")
    wanted = _tensor(True if mask is None else mask, torch.bool)
    problem = f"the mask of tl.{name} is {_name(mask)} of {_dtype(wanted)}, for {_name(pointer)}"
    if wanted.dtype != torch.bool:
        raise KernelProblem(problem)
    return pointer._t, _expand(wanted, pointer._t, problem)


def _expand(t: Tensor, at: Tensor, problem: str) -> Tensor:
    try:
        return t.expand(at.shape).contiguous()
    except RuntimeError:
        raise KernelProblem(problem) from None


def _name(x: Any) -> str:
    if not isinstance(x, _Indexed):
        return repr(x) if isinstance(x, bool | int | float) else f"a {type(x).__name__}"
    what = "pointer" if isinstance(x, Pointer) else "block"
    return f"a {what} of shape {x.shape}" if x.shape else f"a single {'pointer' if what == 'pointer' else 'number'}"


def _dtype(t: Tensor) -> str:
    return str(t.dtype).removeprefix("torch.")
