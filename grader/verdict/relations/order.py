"""The right numbers in the wrong places: axes swapped, read in another order, flipped, rolled, shifted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import permutations

import torch
from grader.verdict.relations.pair import Pair
from grader.verdict.relations.phrases import join_words, line_name, ordinal, shape_text
from torch import Tensor

LARGEST = 30_000  # beyond this many values, reorderings are not searched


def explain_reordering(pair: Pair) -> str:
    """A sentence if the wrong tensor has exactly the right numbers in other places."""
    if pair.got.numel() > LARGEST or pair.got.numel() < 2 or not _has_same_numbers(pair):
        return ""
    for sentence, candidate in _reorderings(pair.expected):
        if pair.is_explained_by(candidate):
            return sentence
    return _explain_slice_order(pair) or _explain_order_in_rows(pair)


def explain_shift(pair: Pair) -> str:
    """All values are shifted by one place along an axis, whatever fills the gap."""
    for axis in reversed(range(pair.got.ndim)):
        size = pair.shape[axis]
        if size < 3 or pair.got.numel() > LARGEST:
            continue
        for late in (True, False):
            there = pair.got.narrow(axis, int(late), size - 1)
            here = pair.expected.narrow(axis, int(not late), size - 1)
            if not pair.all_agree(there, here):
                continue
            right = pair.expected.narrow(axis, int(late), size - 1)
            clearly = ~pair.agree(here, right, 10 * pair.allowed)
            if not pair.beats_chance(there[clearly]):
                continue
            rest = pair.got.select(axis, 0 if late else -1)
            filled = f", and the {'first' if late else 'last'} is zeros" if bool((rest == 0).all()) else ""
            way = "late: index i has the value of index i - 1" if late else "early: index i has the value of index i + 1"
            return f"Along {_axis_name(axis, pair.shape)} everything is one place too {way}{filled}."
    return ""


def explain_copied_input(pair: Pair, inputs: Sequence[Tensor]) -> str:
    """An input returned unchanged, or with its axes reordered or reshaped."""
    for which, tensor in enumerate(inputs):
        if tensor.numel() != pair.got.numel() or tensor.numel() < 2 or tensor.numel() > LARGEST or tensor.ndim > 5:
            continue
        name = "the input" if len(inputs) == 1 else f"the {ordinal(which)} tensor argument"
        wide = tensor.detach().to(pair.got.dtype) if tensor.is_complex() <= pair.got.is_complex() else None
        if wide is None:
            continue
        if tuple(wide.shape) == pair.shape and pair.is_explained_by(wide):
            return f"It equals {name}, unchanged."
        if not pair.all_agree(*(_sorted_values(t) for t in (pair.got, wide))):
            continue
        for order in permutations(range(wide.ndim)):
            if pair.is_explained_by(wide.permute(order).reshape(pair.shape)):
                straight = list(order) == list(range(wide.ndim))
                how = "reshaped" if straight else f"with its axes in the order {join_words(order)}"
                tail = f" to {shape_text(pair.shape)} without moving an axis" if straight else " and then reshaped"
                return f"It is {name}, of shape {shape_text(tensor.shape)}, {how}{tail}."
        cut = _explain_split(pair, wide)
        if cut:
            return f"It is {name}, of shape {shape_text(tensor.shape)}, {cut}."
    return ""


def _explain_split(pair: Pair, tensor: Tensor) -> str:
    """One axis of the tensor is split in two, and then the axes are reordered."""
    if tensor.ndim + 1 != pair.got.ndim or pair.got.ndim > 4:
        return ""
    for axis, size in enumerate(tensor.shape):
        for first in (n for n in set(pair.shape) if 1 < n < size and size % n == 0):
            cut = tensor.unflatten(axis, (first, size // first))
            for order in permutations(range(cut.ndim)):
                if tuple(cut.shape[i] for i in order) == pair.shape and pair.is_explained_by(cut.permute(order)):
                    return f"with axis {axis} split into {first} by {size // first} and then the axes in the order {join_words(order)}"
    return ""


def _sorted_values(tensor: Tensor) -> Tensor:
    flat = tensor.flatten()
    return (flat.real + math.pi * flat.imag if flat.is_complex() else flat).sort().values


def _has_same_numbers(pair: Pair) -> bool:
    if not pair.real:
        return True
    return pair.all_agree(_sorted_values(pair.got), _sorted_values(pair.expected))


def _axis_name(axis: int, shape: Sequence[int]) -> str:
    if len(shape) == 1:
        return "the vector"
    return f"axis {axis}" if len(shape) > 2 else ("axis 0 (down the rows)", "axis 1 (along each row)")[axis]


def _reorderings(right: Tensor) -> Iterator[tuple[str, Tensor]]:
    shape, axes = tuple(right.shape), range(right.ndim)
    orders = sorted(permutations(axes), key=lambda order: sum(i != j for i, j in enumerate(order)))[1:] if right.ndim <= 5 else []
    for order in orders:
        if tuple(shape[i] for i in order) == shape:
            yield _describe_permutation(order, shape), right.permute(order)
    for axis in reversed(axes):
        if shape[axis] > 1:
            swapped = f"The two slices along {_axis_name(axis, shape)} are swapped." if shape[axis] == 2 else ""
            yield swapped or f"Everything is in reverse order along {_axis_name(axis, shape)}.", right.flip(axis)
    for axis in reversed(axes):
        for step in range(1, shape[axis]) if 2 < shape[axis] <= 64 else ():
            yield _describe_roll(axis, step, shape), right.roll(step, axis)
    for axis in reversed(axes):
        yield from _regroupings(right, axis)
    for order in orders:
        how = f"axes {join_words([i for i, j in enumerate(order) if i != j])} swapped" if _is_swap(order) else f"its axes in the order {join_words(order)}"
        said = f"It is the right result with {how} and then reshaped to {shape_text(shape)}: view and transpose are mixed up."
        yield said, right.permute(order).reshape(shape)


def _is_swap(order: Sequence[int]) -> bool:
    return sum(i != j for i, j in enumerate(order)) == 2


def _describe_permutation(order: Sequence[int], shape: Sequence[int]) -> str:
    if len(shape) == 2:
        return "It is transposed: rows and columns are swapped."
    if _is_swap(order):
        return f"Axes {join_words([i for i, j in enumerate(order) if i != j])} are swapped."
    return f"The axes are in the order {join_words(order)}."


def _describe_roll(axis: int, step: int, shape: Sequence[int]) -> str:
    size, name = shape[axis], _axis_name(axis, shape)
    if size == 2 * step:
        return f"The two halves along {name} are swapped."
    if step in (1, size - 1):
        late = step == 1
        way = "late, and the last is now at the front" if late else "early, and the first is now at the end"
        return f"Along {name} everything is one place too {way}."
    by, way = (step, "late") if step <= size // 2 else (size - step, "early")
    return f"Along {name} everything is {by} places too {way}; the values that fall off one end appear at the other."


def _regroupings(right: Tensor, axis: int) -> Iterator[tuple[str, Tensor]]:
    """Blocks and neighbours mixed up: the axis is split into n by m and joined in the other order."""
    shape = tuple(right.shape)
    size, name = shape[axis], _axis_name(axis, shape)
    for first in range(2, size // 2 + 1):
        second = size // first
        if first * second != size:
            continue
        cut = right.reshape(*shape[:axis], first, second, *shape[axis + 1 :])
        said = f"Along {name} neighbouring values are interleaved, or the reverse: size {size} was split into {first} by {second} and joined in the wrong order."
        yield said, cut.transpose(axis, axis + 1).reshape(shape)
        if second == 2:
            yield f"Along {name} neighbours are swapped: 0 with 1, 2 with 3, and so on.", cut.flip(axis + 1).reshape(shape)


def _explain_slice_order(pair: Pair) -> str:
    for axis in reversed(range(pair.got.ndim)):
        size = pair.shape[axis]
        if not 2 < size <= 16 or pair.got.numel() * size > LARGEST:
            continue
        got, right = pair.got.movedim(axis, 0).reshape(size, 1, -1), pair.expected.movedim(axis, 0).reshape(1, size, -1)
        match = pair.agree(got, right).all(-1)
        if bool((match.sum(0) == 1).all()) and bool((match.sum(1) == 1).all()):
            order = match.int().argmax(1).tolist()
            candidate = pair.expected.index_select(axis, torch.tensor(order))
            if pair.is_explained_by(candidate):
                return f"The slices along {_axis_name(axis, pair.shape)} are in the order {join_words(order)}."
    return ""


def _explain_order_in_rows(pair: Pair) -> str:
    if not pair.real or not pair.beats_chance(pair.got[pair.wrong]) or pair.count_distinct(pair.expected.flatten()) < 4:
        return ""
    for axis in reversed(range(pair.got.ndim)) if pair.got.ndim > 1 else ():
        if pair.shape[axis] > 1 and pair.all_agree(pair.got.sort(axis).values, pair.expected.sort(axis).values):
            name = line_name(axis, pair.got.ndim)
            return f"{name[0].upper()}{name[1:]} has the right numbers in the wrong order."
    return "It has exactly the right numbers, but in the wrong places."
