"""How shapes or types differ, and whether the values are right apart from that."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import permutations

import torch
from grader.verdict.relations.pair import Pair
from grader.verdict.relations.phrases import join_words, ordinal, shape_text
from torch import Tensor


def explain_shape(got: Tensor, expected: Tensor, tol: float) -> list[str]:
    """At most two sentences: how the shape differs, and whether the values are right."""
    has, wants = tuple(got.shape), tuple(expected.shape)
    for relation in (_explain_size_one, _explain_regrouping, _explain_axis_order, _explain_lost_axis, _explain_added_axis, _explain_axis_length):
        found = relation(got, expected, tol, has, wants)
        if found:
            return [sentence for sentence in found if sentence]
    return []


def _equal(got: Tensor, expected: Tensor, tol: float) -> bool:
    """Same shape, same values, and more than one of them."""
    if got.shape != expected.shape or got.numel() < 2:
        return False
    pair = Pair.of(got, expected, tol)
    return not bool(pair.wrong.any()) and pair.count_distinct(pair.expected.flatten()) > 1


def _shape_only_note(right: bool) -> str:
    return "The values are right; only the shape is wrong." if right else ""


def _explain_size_one(got: Tensor, expected: Tensor, tol: float, has: tuple[int, ...], wants: tuple[int, ...]) -> list[str]:
    if [n for n in has if n != 1] != [n for n in wants if n != 1] or math.prod(has) != math.prod(wants):
        return []
    right = _shape_only_note(_equal(got.reshape(wants), expected, tol))
    extra, missing = _one_axis(has, wants), _one_axis(wants, has)
    if extra is not None:
        return [f"It has one axis too many, of size 1: axis {extra} of {shape_text(has)}.", right]
    if missing is not None and has:
        return [f"The axis of size 1 at place {missing} of {shape_text(wants)} is missing: squeeze or an index removed it.", right]
    if not has:
        return [f"It is a single number without axes; it should have shape {shape_text(wants)}."]
    where = "in the wrong place" if len(has) == len(wants) else "too many" if len(has) > len(wants) else "missing"
    return [f"Only axes of size 1 are {where}: {shape_text(has)} instead of {shape_text(wants)}.", right]


def _one_axis(longer: Sequence[int], shorter: Sequence[int]) -> int | None:
    """The place of the one axis of size 1 that `longer` has beyond `shorter`; None when there is no such place, or several."""
    if len(longer) != len(shorter) + 1:
        return None
    places = [i for i, n in enumerate(longer) if n == 1 and tuple(longer[:i]) + tuple(longer[i + 1 :]) == tuple(shorter)]
    return places[0] if len(places) == 1 else None


def _explain_axis_order(got: Tensor, expected: Tensor, tol: float, has: tuple[int, ...], wants: tuple[int, ...]) -> list[str]:
    if sorted(has) != sorted(wants) or len(has) > 5 or 0 in has:
        return []
    orders = [order for order in permutations(range(len(wants))) if tuple(wants[i] for i in order) == has]
    orders.sort(key=lambda order: sum(i != j for i, j in enumerate(order)))
    fitting = [order for order in orders if _equal(got, expected.permute(order), tol)]
    order = (fitting or orders)[0]
    swapped = [i for i, j in enumerate(order) if i != j]
    if not fitting and (len(orders) > 1 or len(swapped) != 2):
        return [f"The sizes are right, but in the wrong order: {shape_text(has)} instead of {shape_text(wants)}."]
    how = f"axes {swapped[0]} and {swapped[1]} are swapped" if len(swapped) == 2 else f"the axes are in the order {join_words(order)}"
    first = f"Compared with the right shape {shape_text(wants)}, {how}."
    if fitting:
        return [first, "With the axes in the right order, every value is right."]
    if _equal(got.reshape(wants), expected, tol):
        return [first, "Reshaped (not transposed) to the expected shape, the values are right."]
    return [f"Compared with the right shape {shape_text(wants)}, the sizes of axes {swapped[0]} and {swapped[1]} are swapped."]


def _explain_regrouping(got: Tensor, expected: Tensor, tol: float, has: tuple[int, ...], wants: tuple[int, ...]) -> list[str]:
    if math.prod(has) != math.prod(wants) or 0 in has:
        return []
    in_order = _equal(got.reshape(wants), expected, tol)
    merged, split = _merged_axes(wants, has), _merged_axes(has, wants)
    if merged:
        first = f"Axes {merged[0]} and {merged[1]} of {shape_text(wants)} were merged into one."
    elif split:
        first = f"Axis {split[0]} of {shape_text(wants)} was split in two: {shape_text(has)}."
    elif in_order or sorted(has) != sorted(wants):
        first = f"The number of values ({got.numel()}) is right, but the shape is {shape_text(has)} instead of {shape_text(wants)}."
    else:
        return []
    return [first, _shape_only_note(in_order)] if in_order or sorted(has) != sorted(wants) else []


def _merged_axes(longer: Sequence[int], shorter: Sequence[int]) -> tuple[int, int] | None:
    """The two neighbouring axes of `longer` whose product gives `shorter`."""
    for i in range(len(longer) - 1):
        if tuple(longer[:i]) + (longer[i] * longer[i + 1],) + tuple(longer[i + 2 :]) == tuple(shorter):
            return i, i + 1
    return None


def _explain_lost_axis(got: Tensor, expected: Tensor, tol: float, has: tuple[int, ...], wants: tuple[int, ...]) -> list[str]:
    gone = _removable_axes(wants, has)
    if not gone:
        gone = [i for i in range(len(wants)) if len(has) == len(wants) and has == wants[:i] + (1,) + wants[i + 1 :]]
        kept = True
    else:
        kept = False
    if not gone:
        return []
    for axis in gone:
        how = _describe_reduction(got.squeeze(axis) if kept else got, expected, axis, tol)
        if how and kept and "index" not in how:
            return [f"Axis {axis} has size 1: this is the right result {how} it (size {wants[axis]})."]
        if how and not kept:
            return [f"Axis {axis} of {shape_text(wants)} (size {wants[axis]}) is missing: this is the right result {how} it."]
    if kept:
        return []
    if len(gone) > 1:
        return [f"One axis of {shape_text(wants)} is missing: the result has shape {shape_text(has)}."]
    return [f"The {ordinal(gone[0])} axis of {shape_text(wants)} (axis {gone[0]}, size {wants[gone[0]]}) is missing."]


def _removable_axes(longer: tuple[int, ...], shorter: tuple[int, ...]) -> list[int]:
    return [i for i in range(len(longer)) if longer[:i] + longer[i + 1 :] == shorter]


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


def _explain_added_axis(got: Tensor, expected: Tensor, tol: float, has: tuple[int, ...], wants: tuple[int, ...]) -> list[str]:
    added = _removable_axes(has, wants)
    if not added:
        return []
    for axis in added:
        if got.shape[axis] and _equal(got, expected.unsqueeze(axis).expand(has), tol):
            return [f"It has one axis too many: axis {axis} repeats the right result {has[axis]} times."]
    if len(added) > 1:
        return [f"It has one axis too many: {shape_text(has)} instead of {shape_text(wants)}."]
    return [f"It has one axis too many: axis {added[0]} of {shape_text(has)}, of size {has[added[0]]}."]


def _explain_axis_length(got: Tensor, expected: Tensor, tol: float, has: tuple[int, ...], wants: tuple[int, ...]) -> list[str]:
    if len(has) != len(wants):
        return []
    differing = [i for i in range(len(has)) if has[i] != wants[i]]
    if len(differing) != 1:
        return []
    axis = differing[0]
    first = f"Axis {axis} has size {has[axis]}; it should have size {wants[axis]}."
    if wants[axis] == 1 and _equal(got, expected.expand(has), tol):
        return [first, f"Along this axis the right values are repeated {has[axis]} times."]
    short, long, names = (has, wants, "missing") if has[axis] < wants[axis] else (wants, has, "too many")
    small, large = (got, expected) if names == "missing" else (expected, got)
    less = long[axis] - short[axis]
    at_end = _equal(small, large.narrow(axis, 0, short[axis]), tol)
    at_start = _equal(small, large.narrow(axis, less, short[axis]), tol)
    if at_end == at_start:
        return []
    where = "last" if at_end else "first"
    which = f"the {where}" if less == 1 else f"the {where} {less}"
    return [first, f"Along this axis {which} {'is' if less == 1 else 'are'} {names}; all other values are right."]


def explain_type(got: Tensor, expected: Tensor, tol: float, inputs: Sequence[Tensor]) -> list[str]:
    """One sentence on a differing dtype, and one more where the values are the right ones in another type."""
    has, wants = str(got.dtype).removeprefix("torch."), str(expected.dtype).removeprefix("torch.")
    real = not (got.is_complex() or expected.is_complex())
    if expected.dtype == torch.bool:
        return [f"Its dtype is {has}; it should be bool."] + _explain_mask_type(got, expected)
    if got.dtype == torch.bool:
        return [f"Its dtype is bool; it should be {wants}."]
    if expected.is_floating_point() and not got.is_floating_point() and real:
        return [f"It has integers ({has}); its dtype should be {wants}."] + _explain_rounding(got, expected, tol)
    if got.is_floating_point() and not expected.is_floating_point() and real:
        first = f"Its dtype is {has}; it should have integers ({wants})."
    else:
        given = {tensor.dtype for tensor in inputs if tensor.is_floating_point()}
        tail = ", as in the input" if given == {expected.dtype} else ""
        first = f"Its dtype is {has}; it should be {wants}{tail}."
    right = got.numel() > 0 and not bool(Pair.of(got, expected, tol).wrong.any())
    return [first, "The values are right; only the dtype is wrong."] if right else [first]


def _explain_mask_type(got: Tensor, expected: Tensor) -> list[str]:
    if expected.numel() < 2 or bool(expected.all()) or not bool(expected.any()) or got.is_complex():
        return []
    if torch.equal(got.bool(), expected) and bool(((got == 0) | (got == 1)).all()):
        return ["The places are right: use True for 1 and False for 0."]
    if torch.equal(got == 0, expected) and bool((got[~expected] < 0).all()):
        return ["It is an additive mask: 0 instead of True, and a negative number instead of False."]
    return []


def _explain_rounding(got: Tensor, expected: Tensor, tol: float) -> list[str]:
    wide = expected.to(torch.float64)
    if not got.numel() or not bool(wide.isfinite().all()):
        return []
    if not bool(Pair.of(got, expected, tol).wrong.any()):
        return ["The values are right; only the dtype is wrong."]
    values = got.to(torch.float64)
    if got.numel() < 3 or not bool((wide != wide.round()).any()) or not bool(values.any()):
        return []
    for how, cut in (("truncated to", wide.trunc()), ("rounded to", wide.round()), ("rounded down to", wide.floor())):
        if torch.equal(values, cut):
            return [f"They are the right values {how} integers."]
    return []
