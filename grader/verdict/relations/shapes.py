"""How shapes or types differ, and whether the values are right apart from that."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import permutations

import torch
from grader.verdict.relations.pair import Locating, Pair, ordinal, shape_text
from grader.verdict.results import join_names
from torch import Tensor

Shape = tuple[int, ...]


def explain_shape(got: Tensor, expected: Tensor, tol: float) -> list[str]:
    """At most two sentences: how the shape differs, and whether the values are right."""
    has, wants = tuple(got.shape), tuple(expected.shape)
    relations = (_explain_size_one, _explain_regrouping, _explain_axis_order, _explain_lost_axis, _explain_axis_length)
    return next((found for relation in relations if (found := relation(got, expected, tol, has, wants))), [])


def _equal(got: Tensor, expected: Tensor, tol: float) -> bool:
    """Same shape, same values, and more than one of them."""
    if got.shape != expected.shape or got.numel() < 2:
        return False
    pair = Pair.of(got, expected, tol)
    return not bool(pair.wrong.any()) and pair.count_distinct(pair.expected.flatten()) > 1


def _shape_only_note(right: bool) -> str:
    return "The values are right; only the shape is wrong." if right else ""


def _removable_axes(longer: Sequence[int], shorter: Sequence[int]) -> list[int]:
    return [i for i in range(len(longer)) if (*longer[:i], *longer[i + 1 :]) == tuple(shorter)]


def _explain_size_one(got: Tensor, expected: Tensor, tol: float, has: Shape, wants: Shape) -> list[str]:
    if [n for n in has if n != 1] != [n for n in wants if n != 1]:
        return []
    if not has:
        return [f"It is a single number without axes; it should have shape {shape_text(wants)}."]
    where = "in the wrong place" if len(has) == len(wants) else "too many" if len(has) > len(wants) else "missing"
    shapes = f"{shape_text(has)} instead of {shape_text(wants)}"
    return [
        Locating(f"Only axes of size 1 are {where}: {shapes}."),
        _shape_only_note(_equal(got.reshape(wants), expected, tol)),
    ]


def _explain_axis_order(got: Tensor, expected: Tensor, tol: float, has: Shape, wants: Shape) -> list[str]:
    if sorted(has) != sorted(wants) or len(has) > 5 or 0 in has:
        return []
    orders = [order for order in permutations(range(len(wants))) if tuple(wants[i] for i in order) == has]
    orders.sort(key=lambda order: sum(i != j for i, j in enumerate(order)))
    order = next((order for order in orders if _equal(got, expected.permute(order), tol)), None)
    if order is None:
        return [f"The sizes are right, but in the wrong order: {shape_text(has)} instead of {shape_text(wants)}."]
    swapped = [i for i, j in enumerate(order) if i != j]
    how = f"axes {join_names(swapped)} are swapped"
    how = how if len(swapped) == 2 else f"the axes are in the order {join_names(order)}"
    compared = f"Compared with the right shape {shape_text(wants)}, {how}."
    return [compared, "With the axes in the right order, every value is right."]


def _explain_regrouping(got: Tensor, expected: Tensor, tol: float, has: Shape, wants: Shape) -> list[str]:
    if math.prod(has) != math.prod(wants) or 0 in has:
        return []
    in_order = _equal(got.reshape(wants), expected, tol)
    if not in_order and sorted(has) == sorted(wants):
        return []
    merged, split = _merged_axis(wants, has), _merged_axis(has, wants)
    if merged is not None:
        first = f"Axes {merged} and {merged + 1} of {shape_text(wants)} were merged into one."
    elif split is not None:
        first = f"Axis {split} of {shape_text(wants)} was split in two: {shape_text(has)}."
    else:
        shapes = f"{shape_text(has)} instead of {shape_text(wants)}"
        first = f"The number of values ({got.numel()}) is right, but the shape is {shapes}."
    return [first, _shape_only_note(in_order)]


def _merged_axis(longer: Sequence[int], shorter: Sequence[int]) -> int | None:
    """The first of two neighbouring axes of `longer` whose product gives `shorter`."""
    merged = ((i, (*longer[:i], longer[i] * longer[i + 1], *longer[i + 2 :])) for i in range(len(longer) - 1))
    return next((i for i, shape in merged if shape == tuple(shorter)), None)


def _explain_lost_axis(got: Tensor, expected: Tensor, tol: float, has: Shape, wants: Shape) -> list[str]:
    if gone := _removable_axes(wants, has):
        for axis in gone:
            if how := _describe_reduction(got, expected, axis, tol):
                which = f"Axis {axis} of {shape_text(wants)} (size {wants[axis]})"
                return [f"{which} is missing: this is the right result {how} it."]
        if len(gone) > 1:
            return [f"One axis of {shape_text(wants)} is missing: the result has shape {shape_text(has)}."]
        which = f"(axis {gone[0]}, size {wants[gone[0]]})"
        return [f"The {ordinal(gone[0])} axis of {shape_text(wants)} {which} is missing."]
    for axis in (i for i in range(len(wants)) if has == (*wants[:i], 1, *wants[i + 1 :])):
        how = _describe_reduction(got.squeeze(axis), expected, axis, tol)
        if how and "index" not in how:
            return [f"Axis {axis} has size 1: this is the right result {how} it (size {wants[axis]})."]
    return []


def _describe_reduction(got: Tensor, expected: Tensor, axis: int, tol: float) -> str:
    if expected.dtype == torch.bool or expected.shape[axis] < 2 or not expected.numel():
        return ""
    wide = expected.to(torch.complex128 if expected.is_complex() else torch.float64)
    ways = {
        "summed over": wide.sum(axis),
        "averaged over": wide.mean(axis),
        "at the first index of": wide.select(axis, 0),
        "at the last index of": wide.select(axis, -1),
    }
    return next((how for how, value in ways.items() if _equal(got, value, tol)), "")


def _explain_axis_length(got: Tensor, expected: Tensor, tol: float, has: Shape, wants: Shape) -> list[str]:
    differing = [i for i in range(len(has)) if has[i] != wants[i]] if len(has) == len(wants) else []
    if len(differing) != 1:
        return []
    axis = differing[0]
    first = f"Axis {axis} has size {has[axis]}; it should have size {wants[axis]}."
    if wants[axis] == 1 and _equal(got, expected.expand(has), tol):
        return [first, f"Along this axis the right values are repeated {has[axis]} times."]
    small, large, names = (got, expected, "missing") if has[axis] < wants[axis] else (expected, got, "too many")
    less = large.shape[axis] - small.shape[axis]
    at_end = _equal(small, large.narrow(axis, 0, small.shape[axis]), tol)
    at_start = _equal(small, large.narrow(axis, less, small.shape[axis]), tol)
    if at_end == at_start:
        return []
    which = f"the {'last' if at_end else 'first'}{f' {less} are' if less > 1 else ' is'}"
    return [first, f"Along this axis {which} {names}; all other values are right."]


def explain_type(got: Tensor, expected: Tensor, tol: float, inputs: Sequence[Tensor]) -> list[str]:
    """One sentence on a differing dtype, and one more where the values are the right ones in another type."""
    has, wants = str(got.dtype).removeprefix("torch."), str(expected.dtype).removeprefix("torch.")
    real = not (got.is_complex() or expected.is_complex())
    if expected.dtype == torch.bool:
        return [f"Its dtype is {has}; it should be bool.", _explain_mask_type(got, expected)]
    if got.dtype == torch.bool:
        return [f"Its dtype is bool; it should be {wants}."]
    right = got.numel() > 0 and not bool(Pair.of(got, expected, tol).wrong.any())
    note = "The values are right; only the dtype is wrong." if right else ""
    if expected.is_floating_point() and not got.is_floating_point() and real:
        return [f"It has integers ({has}); its dtype should be {wants}.", note or _explain_rounding(got, expected)]
    if got.is_floating_point() and not expected.is_floating_point() and real:
        return [f"Its dtype is {has}; it should have integers ({wants}).", note]
    given = {tensor.dtype for tensor in inputs if tensor.is_floating_point()}
    as_given = ", as in the input" if given == {expected.dtype} else ""
    return [f"Its dtype is {has}; it should be {wants}{as_given}.", note]


def _explain_mask_type(got: Tensor, expected: Tensor) -> str:
    if expected.numel() < 2 or bool(expected.all()) or not bool(expected.any()) or got.is_complex():
        return ""
    if torch.equal(got.bool(), expected) and bool(((got == 0) | (got == 1)).all()):
        return "The places are right: use True for 1 and False for 0."
    additive = torch.equal(got == 0, expected) and bool((got[~expected] < 0).all())
    return "It is an additive mask: 0 instead of True, and a negative number instead of False." if additive else ""


def _explain_rounding(got: Tensor, expected: Tensor) -> str:
    wide, values = expected.to(torch.float64), got.to(torch.float64)
    if got.numel() < 3 or not bool(wide.isfinite().all()):
        return ""
    if not bool((wide != wide.round()).any()) or not bool(values.any()):
        return ""
    ways = {"truncated to": wide.trunc(), "rounded to": wide.round(), "rounded down to": wide.floor()}
    found = next((how for how, cut in ways.items() if torch.equal(values, cut)), "")
    return f"They are the right values {found} integers." if found else ""
