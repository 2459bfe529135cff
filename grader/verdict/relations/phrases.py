"""Phrases that the relations share: numbers, lists of places, names of axes, of inputs and of constants."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import permutations

from torch import Tensor

ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


def format_number(value: float) -> str:
    """Three significant digits, without a tail of zeros."""
    return f"{value:.3g}".replace("e-0", "e-").replace("e+0", "e")


def shape_text(shape: Sequence[int]) -> str:
    return str(tuple(shape))


def ordinal(index: int) -> str:
    return ORDINALS[index] if index < len(ORDINALS) else f"{index + 1}th"


def join_words(items: Iterable[object]) -> str:
    *first, last = map(str, items)
    return f"{', '.join(first)} and {last}" if first else last


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
    return f"{noun} {join_words(indices)}{tail}"


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
