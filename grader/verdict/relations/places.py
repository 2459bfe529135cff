"""The places of the wrong values: one position, some rows, a triangle; values that are not finite; and right values in
other places."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import permutations

import torch
from grader.verdict.relations.pair import (
    CLEAR_FACTOR,
    Locating,
    Pair,
    axis_name,
    format_number,
    inputs_with_names,
    line_name,
    shape_text,
    slice_names,
)
from grader.verdict.results import join_names
from torch import Tensor


def explain_not_finite(pair: Pair) -> list[str]:
    """The number of NaN or infinities whose right value is finite, with the first place; and missing infinities."""
    nan, infinite = pair.got.isnan() & ~pair.expected.isnan(), pair.got.isinf() & pair.expected.isfinite()
    bad = nan | infinite
    if not bool(bad.any()):
        return _explain_missing_infinities(pair)
    total, count = bad.numel(), int(bad.sum())
    kind = "NaN" if not bool(infinite.any()) else "infinite" if not bool(nan.any()) else "NaN or infinite"
    first = "It" if total == 1 else f"All {total} values" if count == total else f"{count} of {total} values"
    where = "" if count == total else f", the first at {bad.nonzero()[0].tolist()}"
    said = f"{first} {'is' if total == 1 or count == 1 else 'are'} {kind}{_say_expected(pair, bad)}{where}."
    sentences = [_explain_bad_rows(pair, bad) or said]
    if 0 < count < total and bool(bad.eq(pair.wrong).all()) and pair.is_significant(~bad):
        sentences.append(Locating("All other values are right."))
    return sentences


def _say_expected(pair: Pair, bad: Tensor) -> str:
    """What the bad values should be, where some right values are infinite."""
    expected = pair.expected[bad]
    if bool(expected.isfinite().all()):
        return "" if bool(pair.expected.isfinite().all()) else " and should be finite"
    same = pair.real and bool((expected == expected[0]).all())
    return f" and should be {format_number(float(expected[0]))}" if same else " and should be numbers or infinite"


def _explain_missing_infinities(pair: Pair) -> list[str]:
    missing = pair.expected.isinf() & pair.wrong
    count, total = int(missing.sum()), int(pair.expected.isinf().sum())
    if not count:
        return []
    signs = set(pair.expected[missing].real.sign().tolist())
    said = {1.0: "+inf", -1.0: "-inf"}[signs.pop()] if len(signs) == 1 and pair.real else "infinite"
    which = f"All {total} values" if count == total else f"{count} of the {total} values"
    which, are = "The one value" if total == 1 else which, "is" if count == 1 else "are"
    sentences = [f"{which} that should be {said} {are} not, the first at {missing.nonzero()[0].tolist()}."]
    if bool(missing.eq(pair.wrong).all()) and pair.is_significant(~missing):
        sentences.append(Locating("All other values are right."))
    return sentences


def _explain_bad_rows(pair: Pair, bad: Tensor) -> str:
    """The bad values fill some rows of the last axis, and nothing else: "Row 2 is all NaN, but should be zero"."""
    if bad.ndim < 2 or bad.shape[-1] < 2:
        return ""
    rows = bad.any(-1)
    if bool(rows.all()) or not bool((bad.all(-1) == rows).all()):
        return ""
    kind = "NaN" if bool(pair.got[bad].isnan().all()) else "infinite" if not bool(pair.got[bad].isnan().any()) else ""
    if not kind:
        return ""
    zeros = ", but should be zero" if bool((pair.expected[bad] == 0).all()) else ""
    count, found = int(rows.sum()), rows.nonzero()
    if bad.ndim == 2:
        named = slice_names(found.flatten().tolist(), 0, pair.shape)
        return Locating(f"{named.capitalize()} {'is' if count == 1 else 'are'} all {kind}{zeros}.")
    first = ", ".join(map(str, found[0].tolist()))
    if count == 1:
        return f"The row [{first}, :] is all {kind}{zeros}; no other value is {kind}."
    return f"{count} of {rows.numel()} rows along the last axis are all {kind}{zeros}, the first at [{first}, :]."


def explain_places(pair: Pair) -> str:
    """The most specific description of the wrong places, if the rest is right and not by coincidence."""
    wrong, total = pair.wrong, pair.wrong.numel()
    count = int(wrong.sum())
    if total < 3 or not 0 < count < total:
        return ""
    if count == 1 and pair.is_significant(~wrong):
        return Locating(f"Only one value of {total} is wrong, at {wrong.nonzero()[0].tolist()}; the others are right.")
    return _explain_triangle(pair) or _explain_slices(pair)


def _explain_triangle(pair: Pair) -> str:
    if pair.got.ndim < 2 or pair.shape[-1] != pair.shape[-2] or pair.shape[-1] < 3:
        return ""
    ones = torch.ones(pair.shape[-2:], dtype=torch.bool)
    on, above, below = ones.tril() & ones.triu(), ones.triu(1), ones.tril(-1)
    wrong = pair.wrong.reshape(-1, *pair.shape[-2:]).any(0)
    parts = {"on the diagonal": on, "above the diagonal": above, "below the diagonal": below}
    touched = [name for name, part in parts.items() if bool((wrong & part).any())]
    if len(touched) != 1:
        return ""
    part = parts[touched[0]]
    outside = (~part).expand(pair.shape)
    if 2 * int((wrong & part).sum()) <= int(part.sum()) or not pair.is_significant(outside):
        return ""
    return Locating(f"Only values {touched[0]}{' of the last two axes' if pair.got.ndim > 2 else ''} are wrong.")


def _explain_slices(pair: Pair) -> str:
    found: list[tuple[float, int, list[bool]]] = []
    for axis in range(pair.wrong.ndim):
        others = [other for other in range(pair.wrong.ndim) if other != axis]
        flags = (pair.wrong.any(dim=others) if others else pair.wrong).tolist()
        if 0 < sum(flags) < len(flags) and pair.is_significant(_right_slices(flags, axis, pair.shape)):
            found.append((sum(flags) / len(flags), axis, flags))
    if not found:
        return ""
    found.sort(key=lambda item: (item[0], item[1]))
    _, axis, flags = found[0]
    said = _describe_slices(flags, axis, pair.shape)
    if len(found) > 1 and not _names_right_slices(flags):
        flags = found[1][2]
        said += f", and there only {slice_names([i for i, bad in enumerate(flags) if bad], found[1][1], pair.shape)}"
    return Locating(said + ".")


def _right_slices(flags: list[bool], axis: int, shape: tuple[int, ...]) -> Tensor:
    beside = [1] * len(shape)
    beside[axis] = len(flags)
    return ~torch.tensor(flags).reshape(beside).expand(shape)


def _names_right_slices(flags: list[bool]) -> bool:
    """Whether the right slices are named and not the wrong ones, because they are fewer."""
    bad = sum(flags)
    good = len(flags) - bad
    return good == 1 and len(flags) > 2 or good < bad


def _describe_slices(flags: list[bool], axis: int, shape: tuple[int, ...]) -> str:
    bad, good = [i for i, flag in enumerate(flags) if flag], [i for i, flag in enumerate(flags) if not flag]
    if _names_right_slices(flags):
        tail = _end_note(good, len(flags))
        return f"Only {slice_names(good, axis, shape)}{tail} {'is' if len(good) == 1 else 'are'} right"
    return f"Only {slice_names(bad, axis, shape)}{_end_note(bad, len(flags))} {'is' if len(bad) == 1 else 'are'} wrong"


def _end_note(indices: list[int], size: int) -> str:
    if len(indices) != 1 or size < 3:
        return ""
    return {0: " (the first)", size - 1: " (the last)"}.get(indices[0], "")


def _rounded_dtype(pair: Pair) -> str:
    """The half-precision type that represents every wrong value exactly, but not the right ones."""
    if pair.got.numel() < 4 or pair.whole or not pair.real or pair.count_distinct(pair.got.flatten()) < 4:
        return ""
    for dtype, name in ((torch.bfloat16, "bfloat16"), (torch.float16, "float16")):
        fits, right = (values.to(dtype).to(torch.float64) == values for values in (pair.got, pair.expected))
        if bool(fits.all()) and 2 * int(right.sum()) < right.numel():
            return name
    return ""


def explain_rounding(pair: Pair) -> str:
    """The values are right except for lost precision."""
    if not (pair.finite and pair.allowed):
        return ""
    largest, size = float((pair.got - pair.expected).abs().max()), float(pair.expected.abs().max())
    if size == 0 or largest > 4e-3 * size:
        return ""
    rounded = _rounded_dtype(pair)
    if rounded:
        difference = f"the largest difference is {format_number(largest)}"
        return f"Close but not equal: every value is rounded to {rounded}; {difference}."
    if largest > 1e-3 * size or largest > 300 * pair.allowed:
        return ""
    difference = f"the largest difference is {format_number(largest)}, where values go up to {format_number(size)}"
    return f"Close but not equal: {difference}."


# ---- right values in other places

MAX_VALUES = 30_000  # of a tensor whose reorderings are searched


def explain_reordering(pair: Pair) -> str:
    """A sentence if the wrong tensor has exactly the right numbers in other places."""
    if not 2 <= pair.got.numel() <= MAX_VALUES:
        return ""
    if pair.real and not pair.all_agree(_sorted_values(pair.got), _sorted_values(pair.expected)):
        return ""
    found = next((said for said, candidate in _reorderings(pair.expected) if pair.is_explained_by(candidate)), "")
    return found or _explain_order_in_rows(pair)


def explain_shift(pair: Pair) -> str:
    """All values are shifted by one place along an axis, whatever fills the gap."""
    for axis in reversed(range(pair.got.ndim)):
        size = pair.shape[axis]
        if size < 3 or pair.got.numel() > MAX_VALUES:
            continue
        for late in (True, False):
            there = pair.got.narrow(axis, int(late), size - 1)
            here = pair.expected.narrow(axis, int(not late), size - 1)
            right = pair.expected.narrow(axis, int(late), size - 1)
            changed = ~pair.agree(here, right, CLEAR_FACTOR * pair.allowed)
            if not pair.all_agree(there, here) or not pair.beats_chance(there[changed]):
                continue
            rest = pair.got.select(axis, 0 if late else -1)
            filled = f", and the {'first' if late else 'last'} is zeros" if bool((rest == 0).all()) else ""
            way = f"{'late' if late else 'early'}: index i has the value of index i {'-' if late else '+'} 1"
            return f"Along {axis_name(axis, pair.shape)} everything is one place too {way}{filled}."
    return ""


def explain_copied_input(pair: Pair, inputs: Sequence[Tensor]) -> str:
    """An input returned unchanged, or with its axes reordered or reshaped."""
    for name, tensor in inputs_with_names(inputs):
        same_size = tensor.numel() == pair.got.numel() and 2 <= tensor.numel() <= MAX_VALUES and tensor.ndim <= 5
        if not same_size or tensor.is_complex() > pair.got.is_complex():
            continue
        wide = tensor.detach().to(pair.got.dtype)
        if tuple(wide.shape) == pair.shape and pair.is_explained_by(wide):
            return f"It equals {name}, unchanged."
        if pair.all_agree(_sorted_values(pair.got), _sorted_values(wide)):
            for how, candidate in _rearrangements(wide, pair.shape):
                if pair.is_explained_by(candidate):
                    return f"It is {name}, of shape {shape_text(tensor.shape)}, {how}."
    return ""


def _rearrangements(tensor: Tensor, shape: tuple[int, ...]) -> Iterator[tuple[str, Tensor]]:
    """The tensor reshaped, or with its axes reordered."""
    yield f"reshaped to {shape_text(shape)} without moving an axis", tensor.reshape(shape)
    for order in list(permutations(range(tensor.ndim)))[1:]:
        yield f"with its axes in the order {join_names(order)} and then reshaped", tensor.permute(order).reshape(shape)


def _sorted_values(tensor: Tensor) -> Tensor:
    flat = tensor.flatten()
    return (flat.real + math.pi * flat.imag if flat.is_complex() else flat).sort().values


def _reorderings(right: Tensor) -> Iterator[tuple[str, Tensor]]:
    shape, axes = tuple(right.shape), range(right.ndim)
    orders = sorted(permutations(axes), key=_count_moved)[1:] if right.ndim <= 5 else []
    for order in orders:
        if tuple(shape[i] for i in order) == shape:
            yield _describe_permutation(order), right.permute(order)
    for axis in reversed(axes):
        if shape[axis] > 1:
            name = axis_name(axis, shape)
            two = f"The two slices along {name} are swapped."
            yield two if shape[axis] == 2 else f"Everything is in reverse order along {name}.", right.flip(axis)
    for axis in reversed(axes):
        for step in range(1, shape[axis]) if 2 < shape[axis] <= 64 else ():
            yield _describe_roll(axis_name(axis, shape), step, shape[axis]), right.roll(step, axis)
    for axis in reversed(axes):
        yield from _regroupings(right, axis)
    for order in orders:
        how = f"axes {_moved(order)} swapped"
        how = how if _count_moved(order) == 2 else f"its axes in the order {join_names(order)}"
        said = f"It is the right result with {how} and then reshaped to {shape_text(shape)}"
        yield f"{said}: view and transpose are mixed up.", right.permute(order).reshape(shape)


def _count_moved(order: Sequence[int]) -> int:
    return sum(i != j for i, j in enumerate(order))


def _moved(order: Sequence[int]) -> str:
    return join_names([i for i, j in enumerate(order) if i != j])


def _describe_permutation(order: Sequence[int]) -> str:
    if len(order) == 2:
        return "It is transposed: rows and columns are swapped."
    if _count_moved(order) == 2:
        return f"Axes {_moved(order)} are swapped."
    return f"The axes are in the order {join_names(order)}."


def _describe_roll(name: str, step: int, size: int) -> str:
    if size == 2 * step:
        return f"The two halves along {name} are swapped."
    if step == 1:
        return f"Along {name} everything is one place too late, and the last is now at the front."
    if step == size - 1:
        return f"Along {name} everything is one place too early, and the first is now at the end."
    by, way = (step, "late") if step <= size // 2 else (size - step, "early")
    return f"Along {name} everything is {by} places too {way}; the values that fall off one end appear at the other."


def _regroupings(right: Tensor, axis: int) -> Iterator[tuple[str, Tensor]]:
    """Blocks and neighbours mixed up: the axis is split into n by m and joined in the other order."""
    shape = tuple(right.shape)
    size, name = shape[axis], axis_name(axis, shape)
    for first in (n for n in range(2, size // 2 + 1) if size % n == 0):
        cut = right.unflatten(axis, (first, size // first))
        split = f"size {size} was split into {first} by {size // first} and joined in the wrong order"
        said = f"Along {name} neighbouring values are interleaved, or the reverse: {split}."
        yield said, cut.transpose(axis, axis + 1).reshape(shape)
        if size == 2 * first:
            said = f"Along {name} neighbours are swapped: 0 with 1, 2 with 3, and so on."
            yield said, cut.flip(axis + 1).reshape(shape)


def _explain_order_in_rows(pair: Pair) -> str:
    if not pair.real or not pair.beats_chance(pair.got[pair.wrong]) or pair.count_distinct(pair.expected.flatten()) < 4:
        return ""
    for axis in reversed(range(pair.got.ndim)) if pair.got.ndim > 1 else ():
        if pair.shape[axis] > 1 and pair.all_agree(pair.got.sort(axis).values, pair.expected.sort(axis).values):
            return f"{line_name(axis, pair.got.ndim).capitalize()} has the right numbers in the wrong order."
    return "It has exactly the right numbers, but in the wrong places."
