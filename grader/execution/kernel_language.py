"""The language of kernels: what the `tl` of a simulated GPU has. Names, meanings and dtypes are those of Triton.

A program's memory is elsewhere: each read and each write is a message, which `grader.execution.simulated_gpu` answers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from grader.execution.simulated_group import RankThread
from torch import Tensor

UNDEFINED = -77  # what a mask without `other` leaves of integers; of fractions, it is nan


class KernelProblem(RuntimeError):
    """A program does what no GPU does, or what it does without saying so. The message says what and where."""


class _Indexed:
    """What blocks and pointers have in common: numbers that only the functions of tl may look at."""

    _t: Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._t.shape)

    def __getitem__(self, index: Any) -> Any:
        parts = index if isinstance(index, tuple) else (index,)
        if any(part is not None and not (isinstance(part, slice) and part == slice(None)) for part in parts):
            raise KernelProblem(f"{_name(self)} is indexed by : and None only; read from memory with tl.load")
        if sum(part is not None for part in parts) > len(self.shape):
            raise KernelProblem(f"{_name(self)} has fewer axes than its index has :")
        return self._with(self._t[index])

    def _with(self, t: Tensor) -> Any:
        other = copy.copy(self)
        other._t = t
        return other

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

    @property
    def dtype(self) -> torch.dtype:
        return self._t.dtype

    @property
    def T(self) -> Block:
        return Language.trans(self)

    def to(self, dtype: torch.dtype) -> Block:
        if not isinstance(dtype, torch.dtype):
            is_pointers = isinstance(dtype, SimpleNamespace)
            given = "the dtype of a pointer; that of its numbers is .dtype.element_ty" if is_pointers else repr(dtype)
            raise KernelProblem(f".to needs a dtype, such as tl.float32, and not {given}")
        return Block(self._t.to(dtype))

    def __bool__(self) -> bool:
        if self.shape:
            raise KernelProblem(
                f"if, while, and, or, min and max need one number, and this is {_name(self)}; use tl.where, & or |"
            )
        return bool(self._t)

    def __index__(self) -> int:
        if self.shape or self.dtype.is_floating_point:
            raise KernelProblem(f"a whole number is needed here, and this is {_name(self)} of {_word(self.dtype)}")
        return int(self._t)

    def __float__(self) -> float:
        raise KernelProblem(f"math and float cannot compute with {_name(self)}; use functions of tl, such as tl.exp")

    def __neg__(self) -> Block:
        return _compute("-", torch.sub, Block(torch.zeros_like(self._t)), self)

    def __invert__(self) -> Block:
        return _compute("^", torch.bitwise_xor, self, True if self.dtype == torch.bool else -1)

    def __pow__(self, _: Any) -> Block:
        raise KernelProblem("the language has no **; multiply instead")

    __hash__ = None  # type: ignore[assignment]


def _compute(symbol: str, function: Callable[..., Tensor], x: Any, y: Any) -> Block:
    kind, what = _common_dtype(x, y), f"{_name(x)} {symbol} {_name(y)}"
    if kind == torch.float16 and symbol in ("/", "%"):
        kind = torch.float32
    if kind.is_floating_point and symbol in ("//", "&", "|", "^"):
        raise KernelProblem(f"{what}: {symbol} is for whole numbers, and these are {_word(kind)}")
    if kind == torch.bool and symbol in ("+", "-", "//", "%"):
        raise KernelProblem(f"{what}: masks are combined by &, | and ~")
    return Block(_call(what, function, _tensor(x, kind), _tensor(y, kind)))


def _call(what: str, function: Callable[..., Tensor], *arguments: Any) -> Tensor:
    try:
        return function(*arguments)
    except RuntimeError as error:
        why = "a whole number is divided by 0" if "ZeroDivision" in str(error) else "the shapes do not fit"
        raise KernelProblem(f"{what}: {why}") from None


def _compute_floats(function: Callable[..., Tensor], x: Any) -> Block:
    if (kind := _dtype_of(x)) not in (torch.float32, torch.float64):
        what = f"{_name(x)} of {_word(kind)}"
        raise KernelProblem(f"tl.{function.__name__} is for float32, and this is {what}; convert it by .to")
    return Block(function(_tensor(x, kind)))


def _operator(symbol: str, function: Callable[..., Tensor], swapped: bool = False) -> Callable[[Any, Any], Any]:
    def compute(self: Block, other: Any) -> Any:
        if isinstance(other, Pointer):
            return NotImplemented  # then Python asks the pointer
        return _compute(symbol, function, *((other, self) if swapped else (self, other)))

    return compute


for _method, _symbol, _function in (  # // and % as in C: -7 // 2 is -3, and -7 % 2 is -1
    ("add", "+", torch.add), ("sub", "-", torch.sub), ("mul", "*", torch.mul), ("truediv", "/", torch.true_divide),
    ("floordiv", "//", partial(torch.div, rounding_mode="trunc")), ("mod", "%", torch.fmod),
    ("and", "&", torch.bitwise_and), ("or", "|", torch.bitwise_or), ("xor", "^", torch.bitwise_xor),
):  # fmt: skip
    setattr(Block, f"__{_method}__", _operator(_symbol, _function))
    setattr(Block, f"__r{_method}__", _operator(_symbol, _function, swapped=True))
for _method, _symbol in (("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="), ("eq", "=="), ("ne", "!=")):
    setattr(Block, f"__{_method}__", _operator(_symbol, getattr(torch, _method)))


class Pointer(_Indexed):
    """Places in the memory of an argument, each counted from its first number."""

    def __init__(self, number: int, kind: torch.dtype) -> None:
        self._number, self._kind, self._t = number, kind, torch.tensor(0)

    @property
    def dtype(self) -> SimpleNamespace:
        return SimpleNamespace(element_ty=self._kind)  # as in Triton, where a pointer has a type of its own

    def __add__(self, other: Any) -> Pointer:
        if isinstance(other, Pointer) or _dtype_of(other).is_floating_point:
            raise KernelProblem(f"a pointer plus {_name(other)} is no place: add whole numbers")
        offsets = _tensor(other, torch.int64)
        return self._with(_call(f"{_name(self)} + {_name(other)}", torch.add, self._t, offsets))

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
        return Block(torch.tensor(self._place[_axis("a grid, for tl.program_id,", axis, range(3))], dtype=torch.int32))

    def num_programs(self, axis: int) -> Block:
        return Block(torch.tensor(self._grid[_axis("a grid, for tl.num_programs,", axis, range(3))], dtype=torch.int32))

    def arange(self, start: int, end: int) -> Block:
        _check_sizes((end - start,))
        return Block(torch.arange(start, end, dtype=torch.int32))

    def zeros(self, shape: Sequence[int], dtype: torch.dtype) -> Block:
        return self.full(shape, 0, dtype)

    def full(self, shape: Sequence[int], value: Any, dtype: torch.dtype) -> Block:
        _check_sizes(shape)
        return Block(_expand(f"tl.full with {_name(value)}", _tensor(value, dtype), shape))

    def load(self, pointer: Pointer, mask: Any = None, other: Any = None) -> Block:
        at, wanted = _places("load", pointer, mask)
        got = self._thread.ask("load", (pointer._number, at, wanted), None)
        if other is None:  # what the mask leaves out is not defined: numbers that spoil a result
            other = float("nan") if pointer._kind.is_floating_point else UNDEFINED
        what = f"tl.load of {_name(pointer)} with {_name(other)} as `other`"
        return Block(torch.where(wanted, got, _expand(what, _tensor(other, pointer._kind), at.shape)))

    def store(self, pointer: Pointer, value: Any, mask: Any = None) -> None:
        at, wanted = _places("store", pointer, mask)
        what = f"tl.store of {_name(value)} at {_name(pointer)}"
        numbers = _expand(what, _tensor(value, pointer._kind), at.shape)
        self._thread.ask("store", (pointer._number, at, wanted, numbers), None)

    def dot(self, a: Block, b: Block, acc: Any = None, input_precision: str | None = None) -> Block:
        x, y = _block("dot", a), _block("dot", b)
        if x.dim() != 2 or y.dim() != 2 or x.size(1) != y.size(0) or x.dtype != y.dtype:
            both = f"{_name(a)} of {_word(x.dtype)} and {_name(b)} of {_word(y.dtype)}"
            raise KernelProblem(f"tl.dot multiplies (m, k) by (k, n) of the same dtype, and not {both}")
        self._thread.calls.append(("dot", 2 * x.size(0) * x.size(1) * y.size(1), None))
        wide = torch.promote_types(x.dtype, torch.float32 if x.is_floating_point() else torch.int32)
        result = Block(x.to(wide) @ y.to(wide))
        return result if acc is None else acc + result

    @staticmethod
    def trans(x: Block) -> Block:
        if (t := _block("trans", x)).dim() != 2:
            raise KernelProblem(f"tl.trans exchanges two axes, and this is {_name(x)}")
        return Block(t.T)

    def max(self, x: Block, axis: int | None = None) -> Block:
        return Block(_along("max", x, axis, torch.float32).amax(0))

    def sum(self, x: Block, axis: int | None = None) -> Block:
        t = _along("sum", x, axis, torch.float16)
        return Block(t.sum(0, dtype=t.dtype))

    def abs(self, x: Any) -> Block:
        return Block(_tensor(x, _dtype_of(x)).abs())

    def where(self, condition: Any, x: Any, y: Any) -> Block:
        kind, what = _common_dtype(x, y), f"tl.where of {_name(condition)}, {_name(x)} and {_name(y)}"
        return Block(_call(what, torch.where, _tensor(condition, torch.bool), _tensor(x, kind), _tensor(y, kind)))

    maximum = staticmethod(partial(_compute, "and", torch.maximum))
    minimum = staticmethod(partial(_compute, "and", torch.minimum))

    def cdiv(self, a: Any, b: Any) -> Any:
        return (a + b - 1) // b


for _function in (torch.exp, torch.log, torch.sqrt):
    setattr(Language, _function.__name__, staticmethod(partial(_compute_floats, _function)))
LANGUAGE = ", ".join(name for name in vars(Language) if not name.startswith("_"))


def _dtype_of(x: Any) -> torch.dtype:
    if isinstance(x, Block):
        return x.dtype
    for kind, dtype in ((bool, torch.bool), (int, torch.int32), (float, torch.float32)):
        if isinstance(x, kind):
            return dtype
    raise KernelProblem(f"a kernel computes with blocks and numbers, and this is {_name(x)}")


def _common_dtype(x: Any, y: Any) -> torch.dtype:
    """The dtype of x + y. A plain number takes that of a block, unless it is a fraction and the block has none."""
    a, b = _dtype_of(x), _dtype_of(y)
    if isinstance(x, Block) != isinstance(y, Block):
        block, number = (a, b) if isinstance(x, Block) else (b, a)
        if torch.can_cast(number, block):
            return block
    return torch.promote_types(a, b)


def _tensor(x: Any, dtype: torch.dtype) -> Tensor:
    if isinstance(x, Block):
        return x._t.to(dtype)
    _dtype_of(x)
    try:
        return torch.tensor(x, dtype=dtype)
    except (RuntimeError, ValueError):
        raise KernelProblem(f"{x!r} is no number of {_word(dtype)}") from None


def _block(name: str, x: Any) -> Tensor:
    if not isinstance(x, Block):
        raise KernelProblem(f"tl.{name} is for blocks, and this is {_name(x)}")
    return x._t


def _along(name: str, x: Any, axis: Any, least: torch.dtype) -> Tensor:
    """A block with this axis first, or flat; integers become int32, and fractions `least`, unless they are wider."""
    t = _block(name, x)
    if t.dtype.itemsize < 4:
        t = t.to(least if t.is_floating_point() else torch.int32)
    if axis is None:
        return t.flatten()
    return t.movedim(_axis(f"{_name(x)}, for tl.{name},", axis, range(-t.dim(), t.dim())), 0)


def _axis(what: str, axis: Any, axes: range) -> int:
    if axis not in axes:
        raise KernelProblem(f"{what} has no axis {axis}")
    return axis


def _check_sizes(shape: Sequence[Any]) -> None:
    for size in shape:
        if not isinstance(size, int):
            constant = "a constant, such as a parameter in CAPITALS"
            raise KernelProblem(f"the size of a block is {constant}, and this is {_name(size)}")
        if size < 1 or size & (size - 1):
            raise KernelProblem(f"there is no block of shape {tuple(shape)}: each size of a block is a power of two")


def _places(name: str, pointer: Any, mask: Any) -> tuple[Tensor, Tensor]:
    if not isinstance(pointer, Pointer):
        raise KernelProblem(f"tl.{name} needs a pointer, such as x + offsets, and this is {_name(pointer)}")
    mask = True if mask is None else mask
    if (kind := _dtype_of(mask)) != torch.bool:
        raise KernelProblem(f"the mask of tl.{name} is {_name(mask)} of {_word(kind)}; compare numbers, such as i < n")
    what = f"tl.{name} at {_name(pointer)} with {_name(mask)} as mask"
    return pointer._t, _expand(what, _tensor(mask, torch.bool), pointer._t.shape)


def _expand(what: str, t: Tensor, shape: Sequence[int]) -> Tensor:
    return _call(what, t.expand, tuple(shape))


def _name(x: Any) -> str:
    if not isinstance(x, _Indexed):
        return repr(x) if isinstance(x, bool | int | float) else f"a {type(x).__name__}"
    what = "pointer" if isinstance(x, Pointer) else "block" if x.shape else "number"
    return f"a {what} of shape {x.shape}" if x.shape else f"a single {what}"


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
