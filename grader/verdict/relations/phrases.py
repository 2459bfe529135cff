"""Phrases that the relations share: numbers, lists of places, names of constants."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import permutations

ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


def format_number(value: float) -> str:
    """Three significant digits, without a tail of zeros."""
    text = f"{value:.3g}"
    return text.replace("e-0", "e-").replace("e+0", "e")


def shape_text(shape: Sequence[int]) -> str:
    return "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


def ordinal(index: int) -> str:
    return ORDINALS[index] if index < len(ORDINALS) else f"{index + 1}th"


def join_words(items: Iterable[object]) -> str:
    words = [str(item) for item in items]
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


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


def line_name(axis: int, ndim: int) -> str:
    """The name of one line of values along an axis."""
    if ndim == 1:
        return "the vector"
    if axis == ndim - 1:
        return "each row" if ndim == 2 else "each row (the last axis)"
    return "each column" if ndim == 2 else f"each line along axis {axis}"


def constant_name(value: float, sizes: Iterable[int], precision: float) -> str:
    """The name of a positive constant above one, "sqrt(8)" or "pi", or "" if none is that close."""
    if precision > 1e-4:
        return ""
    slack = max(3 * precision, 1e-6) * value
    if abs(value - round(value)) <= slack and round(value) < 1000:
        return _integer_name(round(value), set(sizes))
    named = [(math.sqrt(size), f"sqrt({size})") for size in sorted(set(sizes)) if size > 1]
    named += [(math.pi, "pi"), (2 * math.pi, "2 pi"), (180 / math.pi, "180/pi, the degrees in a radian"), (math.e, "e")]
    named += [(1 / math.log(2), "1/ln(2)"), (math.log(10), "ln(10)"), (math.log(10000), "ln(10000)"), (math.sqrt(2), "sqrt(2)")]
    for candidate, name in named:
        if abs(candidate - value) <= slack:
            return name
    for large, small in permutations(sorted(set(sizes)), 2):
        if large > small > 1 and large % small and abs(math.sqrt(large / small) - value) <= slack:
            return f"sqrt({large}/{small})"
    whole = round(value * value)
    return f"sqrt({whole})" if whole <= 64 and abs(math.sqrt(whole) - value) <= slack else ""


def _integer_name(value: int, sizes: set[int]) -> str:
    root, size = f"sqrt({value * value})", "the size of an axis"
    names = [size] * (value > 2 and value in sizes) + [root] * (value * value in sizes)
    return " and also ".join(names)
