"""A wrong tensor and the right one: does a relation explain the values, and not by coincidence?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations

import torch
from grader.verdict.results import join_names
from torch import Tensor

MIN_SURPRISAL_BITS = 8  # that integers need, since they agree by coincidence more often than other numbers
SAMPLED_VALUES = 4096  # the first so many values are enough to count distinct ones
CLEAR_FACTOR = 10  # a relation must change values by this many times the tolerance to count


def differing_values(got: Tensor, expected: Tensor, tol: float) -> Tensor:
    """Where two tensors (float64 or complex128) of one shape differ by more than `tol`, relative to their size."""
    size = expected.abs()
    finite = size[size.isfinite()]
    scale = max(float(finite.max()) if finite.numel() else 0.0, 1e-2)
    near = (got - expected).abs() <= tol * (scale + size)
    if finite.numel() == size.numel():
        return ~near
    return ~((near & expected.isfinite()) | (got == expected) | (got.isnan() & expected.isnan()))


@dataclass(frozen=True)
class Pair:
    """Two tensors of one shape, widened to float64 or complex128, and the largest difference that still counts as
    equal."""

    got: Tensor
    expected: Tensor
    allowed: float
    wrong: Tensor  # where the two differ
    logical: bool = False  # both are boolean

    @classmethod
    def of(cls, got: Tensor, expected: Tensor, tol: float) -> Pair:
        """`tol` is relative to the values expected; whole numbers and booleans must agree exactly."""
        exact = not any(dtype.is_floating_point or dtype.is_complex for dtype in (got.dtype, expected.dtype))
        logical = got.dtype == expected.dtype == torch.bool
        wide = torch.complex128 if got.dtype.is_complex or expected.dtype.is_complex else torch.float64
        got, expected = got.detach().to(wide), expected.detach().to(wide)
        size = expected.abs()
        size = size[size.isfinite()]
        scale = float(size.max()) if size.numel() else 0.0
        allowed = 0.0 if exact else tol * (scale if scale > 0 else 1.0)
        return cls(got, expected, allowed, differing_values(got, expected, 0.0 if exact else tol), logical)

    @cached_property
    def finite(self) -> bool:
        return bool(self.got.isfinite().all() and self.expected.isfinite().all())

    @cached_property
    def real(self) -> bool:
        return not self.got.is_complex()

    @cached_property
    def whole(self) -> bool:
        """Both tensors have only integers: single values may agree by coincidence."""
        return self.real and all(bool((t == t.round()).all()) for t in (self.got, self.expected))

    @cached_property
    def bits(self) -> float:
        """The information of one agreeing value: 16 bits at a tolerance of 1e-5, 4 bits at 3e-2."""
        size = self.expected[self.expected.isfinite()].abs()
        scale = float(size.max()) if size.numel() else 0.0
        return math.log2(max(scale / (2 * self.allowed), 1.0)) if self.allowed else 52.0

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.got.shape)

    def agree(self, a: Tensor, b: Tensor, allowed: float | None = None) -> Tensor:
        """Where a and b agree; equal infinities and two NaNs agree."""
        same = (a - b).abs() <= (self.allowed if allowed is None else allowed)
        return same if self.finite else same | (a == b) | (a.isnan() & b.isnan())

    def all_agree(self, a: Tensor, b: Tensor) -> bool:
        return bool(self.agree(a, b).all())

    def clear(self, values: Tensor) -> Tensor:
        """Where values, or differences, are clearly not zero."""
        return values.abs() > CLEAR_FACTOR * self.allowed

    def is_explained_by(self, candidate: Tensor) -> bool:
        """Whether the wrong tensor equals the candidate, and the candidate clearly differs from the right result."""
        if not self.all_agree(self.got, candidate):
            return False
        changed = ~self.agree(candidate, self.expected, CLEAR_FACTOR * self.allowed)
        return self.beats_chance(self.got[changed])

    def beats_chance(self, values: Tensor) -> bool:
        """Whether the agreement of these values is more than a coincidence."""
        if self.count_distinct(values) < 2:
            return False
        if self.whole:
            return _surprisal_bits(values) >= MIN_SURPRISAL_BITS
        return values.numel() * self.bits >= 2 * MIN_SURPRISAL_BITS

    def count_distinct(self, values: Tensor) -> int:
        """The number of different values (among the first ones), up to the tolerance."""
        values = values.flatten()[:SAMPLED_VALUES]
        if not self.real:
            values = values.real + math.pi * values.imag
        values = values[values.isfinite()].sort().values
        if not values.numel():
            return 0
        return 1 + int((values.diff() > CLEAR_FACTOR * self.allowed).sum())

    def is_significant(self, where: Tensor) -> bool:
        """Whether the agreement at these places says anything: zeros, ones and infinities agree in most results."""
        values = self.expected[where]
        if self.whole:
            return self.count_distinct(values) >= 2 and _surprisal_bits(values) >= 1.5 * MIN_SURPRISAL_BITS
        plain = (values == 0) | ((values.abs() - 1).abs() < 2e-3) | ~values.isfinite()
        return self.beats_chance(values[~plain])


def _surprisal_bits(values: Tensor) -> float:
    """In bits, how unlikely it is that two random draws of so many of these values are equal."""
    values = values.flatten()[:SAMPLED_VALUES]
    counts = values.unique(return_counts=True)[1].to(torch.float64)
    return -values.numel() * math.log2(float(((counts / counts.sum()) ** 2).sum()))


# ---- words for numbers, axes and inputs


class Complete(str):
    """A sentence that explains all wrong values."""


class Locating(str):
    """A sentence that only says where, or how far, a value is wrong: a diagnosis says more."""


ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


def format_number(value: float) -> str:
    """Three significant digits, without a tail of zeros."""
    return f"{value:.3g}".replace("e-0", "e-").replace("e+0", "e")


def shape_text(shape: Sequence[int]) -> str:
    return str(tuple(shape))


def ordinal(index: int) -> str:
    return ORDINALS[index] if index < len(ORDINALS) else f"{index + 1}th"


def inputs_with_names(inputs: Sequence[Tensor]) -> Iterator[tuple[str, Tensor]]:
    for which, tensor in enumerate(inputs):
        yield "the input" if len(inputs) == 1 else f"the {ordinal(which)} tensor argument", tensor


def axis_name(axis: int, shape: Sequence[int]) -> str:
    if len(shape) == 1:
        return "the vector"
    return f"axis {axis}" if len(shape) > 2 else ("axis 0 (down the rows)", "axis 1 (along each row)")[axis]


def line_name(axis: int, ndim: int) -> str:
    """The name of one line of values along an axis."""
    if ndim == 1:
        return "the vector"
    if axis == ndim - 1:
        return "each row" if ndim == 2 else "each row (the last axis)"
    return "each column" if ndim == 2 else f"each line along axis {axis}"


def slice_names(indices: Sequence[int], axis: int, shape: Sequence[int]) -> str:
    """Name some slices of an axis: "row 2", "columns 3 to 7", "indices 0, 2 and 4 of axis 1"."""
    ndim, many = len(shape), len(indices) > 1
    if ndim == 2:
        noun, tail = ("row", "column")[axis] + ("s" if many else ""), ""
    else:
        noun, tail = ("indices" if many else "index"), f" of axis {axis}" if ndim > 1 else ""
    if len(indices) > 2 and indices[-1] - indices[0] == len(indices) - 1:
        return f"{noun} {indices[0]} to {indices[-1]}{tail}"
    if len(indices) > 6:
        return f"{noun} {', '.join(map(str, indices[:5]))} ... ({len(indices)} of {shape[axis]}){tail}"
    return f"{noun} {join_names(indices)}{tail}"


def constant_name(value: float, sizes: Iterable[int], precision: float) -> str:
    """The name of a positive constant above one, "sqrt(8)" or "pi", or "" if none is that close."""
    if precision > 1e-4:
        return ""
    slack, known = max(3 * precision, 1e-6) * value, sorted(set(sizes))
    whole = round(value)
    if abs(value - whole) <= slack and whole < 1000:
        size = ["the size of an axis"] if whole > 2 and whole in known else []
        return " and also ".join(size + [f"sqrt({whole * whole})"] * (whole * whole in known))
    named = [(math.sqrt(size), f"sqrt({size})") for size in known if size > 1]
    named += [(math.pi, "pi"), (2 * math.pi, "2 pi"), (180 / math.pi, "180/pi, the degrees in a radian"), (math.e, "e")]
    named += [(1 / math.log(2), "1/ln(2)"), (math.log(10), "ln(10)"), (math.log(10000), "ln(10000)")]
    named += [(math.sqrt(a / b), f"sqrt({a}/{b})") for a, b in permutations(known, 2) if a > b > 1 and a % b]
    named += [(math.sqrt(n), f"sqrt({n})") for n in range(2, 65)]
    return next((name for candidate, name in named if abs(candidate - value) <= slack), "")
