"""The right numbers in the wrong places: axes swapped, read in another order, flipped, rolled, shifted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import permutations

from grader.verdict.relations.pair import CLEAR_FACTOR, Pair
from grader.verdict.relations.phrases import axis_name, inputs_with_names, join_words, line_name, shape_text
from torch import Tensor

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
        yield f"with its axes in the order {join_words(order)} and then reshaped", tensor.permute(order).reshape(shape)


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
        how = how if _count_moved(order) == 2 else f"its axes in the order {join_words(order)}"
        said = f"It is the right result with {how} and then reshaped to {shape_text(shape)}"
        yield f"{said}: view and transpose are mixed up.", right.permute(order).reshape(shape)


def _count_moved(order: Sequence[int]) -> int:
    return sum(i != j for i, j in enumerate(order))


def _moved(order: Sequence[int]) -> str:
    return join_words([i for i, j in enumerate(order) if i != j])


def _describe_permutation(order: Sequence[int]) -> str:
    if len(order) == 2:
        return "It is transposed: rows and columns are swapped."
    if _count_moved(order) == 2:
        return f"Axes {_moved(order)} are swapped."
    return f"The axes are in the order {join_words(order)}."


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
