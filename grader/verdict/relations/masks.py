"""Relations between two boolean tensors: inverted, all True, a triangle with its diagonal in the wrong place."""

from __future__ import annotations

import torch
from grader.verdict.relations.pair import Pair
from grader.verdict.relations.phrases import format_number
from torch import Tensor


def explain_mask(pair: Pair) -> list[str]:
    """At most two sentences about a wrong boolean tensor."""
    got, right = pair.got.bool(), pair.expected.bool()
    if got.numel() < 2:
        return []
    mixed = bool(right.any()) and not bool(right.all())
    for value in (True, False):
        if mixed and bool((got == value).all()):
            should = int((right != value).sum())
            return [f"Every value is {value}; {should} of {got.numel()} should be {not value}."]
    if mixed and torch.equal(got, ~right):
        return ["It is inverted: True and False are swapped."]
    triangle = _explain_triangle(got, right)
    return [triangle] if triangle else []


def explain_extra_values(pair: Pair) -> str:
    """The mask has only too many, or only too few, True values."""
    got, right = pair.got.bool(), pair.expected.bool()
    more, fewer = got & ~right, right & ~got
    if got.numel() < 6 or not bool(right.any()) or bool(right.all()):
        return ""
    if bool(more.any()) and not bool(fewer.any()):
        return f"No True is missing, but {_too_many(more, True)}, the first at {more.nonzero()[0].tolist()}."
    if bool(fewer.any()) and not bool(more.any()) and bool(got.any()):
        return f"No False is missing, but {_too_many(fewer, False)}, the first at {fewer.nonzero()[0].tolist()}."
    return ""


def _too_many(places: Tensor, value: bool) -> str:
    count = int(places.sum())
    return f"{count} {'value' if count == 1 else 'values'} {'is' if count == 1 else 'are'} {value} and should be {not value}"


def _explain_triangle(got: Tensor, right: Tensor) -> str:
    if got.ndim < 2 or min(got.shape[-2:]) < 2 or 0 in got.shape:
        return ""
    wants, has = triangle_diagonal(right), triangle_diagonal(got)
    if wants is None:
        return ""
    if has is not None:
        here, there = column_bound(has), column_bound(wants)
        return f"The diagonal is off by {format_number(abs(has - wants))}: row i is True up to column {here}; it should be True up to column {there}."
    upper = triangle_diagonal(got.flip(-1, -2))
    if upper is None:
        return ""
    start = got.shape[-1] - got.shape[-2] - upper
    return f"It is the other triangle: row i is True from column {column_bound(start)} on; it should be True up to column {column_bound(wants)}."


def column_bound(diagonal: int) -> str:
    return "i" if diagonal == 0 else f"i {'+' if diagonal > 0 else '-'} {abs(diagonal)}"


def triangle_diagonal(tensor: Tensor) -> int | None:
    """The diagonal k for which every matrix is True exactly where column <= row + k, if there is exactly one such k."""
    rows, columns = tensor.shape[-2:]
    matrix = tensor.reshape(-1, rows, columns)[0]
    if bool(matrix.all()) or not bool(matrix.any()):
        return None
    lengths = matrix.sum(-1)
    inner = [(row, int(n)) for row, n in enumerate(lengths.tolist()) if 0 < n < columns]
    if not inner:
        return None
    k = inner[0][1] - 1 - inner[0][0]
    ideal = torch.ones(rows, columns, dtype=torch.bool).tril(k)
    return k if bool((tensor == ideal).all()) else None
