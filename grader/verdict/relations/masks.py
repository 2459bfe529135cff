"""Relations of masks (boolean tensors), and of attention weights: their sums, their zeros, their scores."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from grader.verdict.relations.arithmetic import describe_factor, sizes_of
from grader.verdict.relations.pair import CLEAR_FACTOR, Complete, Pair, format_number, line_name
from torch import Tensor

MIN_WEIGHT = 1e-4  # smaller weights are not used to measure sharpness
MAX_SUM_TOLERANCE = 0.03

# ---- masks


def explain_mask(pair: Pair) -> str:
    """One value everywhere, inverted, or a triangle with its diagonal in the wrong place."""
    got, right = pair.got.bool(), pair.expected.bool()
    if got.numel() < 2:
        return ""
    if bool(right.any()) and not bool(right.all()):
        for value in (True, False):
            if bool((got == value).all()):
                return f"Every value is {value}; {int((right != value).sum())} of {got.numel()} should be {not value}."
        if torch.equal(got, ~right):
            return "It is inverted: True and False are swapped."
    return _explain_triangle(got, right)


def _explain_triangle(got: Tensor, right: Tensor) -> str:
    if got.ndim < 2 or min(got.shape[-2:]) < 2 or 0 in got.shape or (wants := _triangle_diagonal(right)) is None:
        return ""
    should = f"it should be True up to column {_column_bound(wants)}"
    if (has := _triangle_diagonal(got)) is not None:
        return f"The diagonal is off by {abs(has - wants)}: row i is True up to column {_column_bound(has)}; {should}."
    if (upper := _triangle_diagonal(got.flip(-1, -2))) is None:
        return ""
    start = got.shape[-1] - got.shape[-2] - upper
    return f"It is the other triangle: row i is True from column {_column_bound(start)} on; {should}."


def _column_bound(diagonal: int) -> str:
    return "i" if diagonal == 0 else f"i {'+' if diagonal > 0 else '-'} {abs(diagonal)}"


def _triangle_diagonal(tensor: Tensor) -> int | None:
    """The diagonal k for which every matrix is True exactly where column <= row + k, if there is exactly one such k."""
    rows, columns = tensor.shape[-2:]
    lengths = tensor.reshape(-1, rows, columns)[0].sum(-1).tolist()
    found = next((length - 1 - row for row, length in enumerate(lengths) if 0 < length < columns), None)
    if found is None:
        return None
    return found if bool((tensor == torch.ones(rows, columns, dtype=torch.bool).tril(found)).all()) else None


# ---- weights


def explain_softmax(pair: Pair, inputs: Sequence[Tensor]) -> str:
    """The expected tensor has weights, and the wrong one differs by one softmax."""
    axis = _weight_axis(pair)
    if axis is None:
        return ""
    if pair.is_explained_by(pair.expected.log()):
        return "Every value is the logarithm of the right one: log(x) instead of x."
    if pair.all_agree(_softmax(pair.got, axis), pair.expected) and pair.beats_chance(pair.expected[pair.wrong]):
        return "These are the scores before the softmax: taking the softmax of them gives the right weights."
    if pair.is_explained_by(pair.expected.softmax(axis)):
        return "The softmax has been taken twice: this is the softmax of the right weights."
    return _explain_sharpness(pair, axis, inputs) if pair.finite else ""


def explain_sums(pair: Pair) -> str:
    """Rows that should sum to one, and their sums."""
    axis = _weight_axis(pair)
    if axis is None or not pair.finite:
        return ""
    right, got, slack = pair.expected, pair.got, _sum_tolerance(pair)
    here = got.sum(axis)[right.sum(axis) > 0.5]
    off = (here - 1).abs() > CLEAR_FACTOR * slack
    should = f"{line_name(axis, right.ndim).capitalize()} should sum to one"
    negative = int((pair.clear(got) & (got < 0)).sum())
    if negative:
        are = "is" if negative == 1 else "are"
        return f"Weights lie between 0 and 1; here {negative} of {got.numel()} values {are} negative."
    if here.numel() * right.shape[axis] < 3 or not bool(off.any()):
        return ""
    if bool(off.all()) and here.numel() > 1 and abs(float(got.sum()) - 1) <= slack:
        return Complete(f"{should}; here the whole tensor does.")
    for other in range(right.ndim):
        inside = ((got > 1e-3) & (got < 1 - 1e-3)).any(other)
        mostly_inside = other != axis and right.shape[other] > 1 and 2 * int(inside.sum()) > inside.numel()
        if mostly_inside and _sum_to_one(got.sum(other), slack):
            return Complete(f"{should}; here {line_name(other, right.ndim)} does.")
    low, high = float(here.min()), float(here.max())
    if high - low <= slack and low > 0:
        return f"{should}; here the sum is {format_number(low)} ({describe_factor(low, right.shape, slack)})."
    wrong = int(off.sum())
    some = "" if wrong == here.numel() else f" and are wrong in {wrong} of {here.numel()}"
    return f"{should}; here the sums run from {format_number(low)} to {format_number(high)}{some}."


def explain_zeros(pair: Pair) -> str:
    """Values that should be exactly zero but are not, or the reverse."""
    if pair.whole or not pair.real or not pair.finite:
        return ""
    zero, weights = pair.expected == 0, _weight_axis(pair) is not None
    leaks, holes = zero & pair.clear(pair.got), (pair.got == 0) & pair.clear(pair.expected)
    count, leaking, missing = int(zero.sum()), int(leaks.sum()), int(holes.sum())
    if weights and leaking > 1 and missing > 1 and bool(((pair.got == 0) | zero).all()) and leaking * 2 > count:
        return Complete("The zeros are where the weights should be, and weights are only where zeros should be.")
    if 1 < count < zero.numel() and leaking > 1 and (leaking == count or weights):
        which = f"All {count} values" if leaking == count else f"{leaking} of the {count} values"
        return f"{which} that should be zero are not, the first at {leaks.nonzero()[0].tolist()}."
    if missing < 2 or not weights or missing == int((~zero).sum()):
        return ""
    triangle = _triangle_diagonal(pair.got != 0)
    if triangle is not None and _triangle_diagonal(~zero) is None:
        beyond = f"Every weight beyond column {_column_bound(triangle)} of row i is zero"
        return f"{beyond}, as under a causal mask; {missing} of them should not be."
    return f"{missing} weights are zero that should not be, the first at {holes.nonzero()[0].tolist()}."


def _weight_axis(pair: Pair) -> int | None:
    """The only axis along which the right values are weights: not negative, with sums of one (or zero)."""
    right, slack = pair.expected, _sum_tolerance(pair)
    if not pair.real or pair.whole or slack > MAX_SUM_TOLERANCE or right.numel() < 3:
        return None
    if bool(((right < 0) | ~right.isfinite()).any()):
        return None
    axes = [axis for axis in range(right.ndim) if right.shape[axis] > 1 and _sum_to_one(right.sum(axis), slack)]
    if len(axes) > 1:
        axes = [axis for axis in axes if bool((right.sum(axis) > 0).all())]
    return axes[0] if len(axes) == 1 else None


def _sum_tolerance(pair: Pair) -> float:
    return max(3 * pair.allowed, 1e-5)


def _sum_to_one(totals: Tensor, slack: float) -> bool:
    one = (totals - 1).abs() <= slack
    return bool((one | (totals == 0)).all() and one.any())


def _softmax(scores: Tensor, axis: int) -> Tensor:
    """The softmax of the course: a row with only -inf gives zeros."""
    return scores.softmax(axis).masked_fill((scores == -torch.inf).all(axis, keepdim=True), 0.0)


def _explain_sharpness(pair: Pair, axis: int, inputs: Sequence[Tensor]) -> str:
    """Both are weights, and the scores of one are the other's times a constant."""
    right, got = (t.movedim(axis, -1).reshape(-1, pair.shape[axis]) for t in (pair.expected, pair.got))
    used = (right > MIN_WEIGHT) & (got > MIN_WEIGHT)
    if int((used.sum(-1) - 1).clamp(min=0).sum()) < 3:
        return ""
    trust = torch.minimum(right, got).where(used, 0.0)
    total = trust.sum(-1, keepdim=True).clamp(min=1e-300)
    logs = [t.where(used, 1.0).log() for t in (right, got)]
    wanted, found = (log - (log * trust).sum(-1, keepdim=True) / total for log in logs)
    square = float((trust * wanted * wanted).sum())
    power = float((trust * wanted * found).sum()) / square if square > 0 else 1.0
    if abs(power) < 1e-2 or abs(power - 1) < 1e-3:
        return ""
    candidate = _softmax(torch.where(right > 0, power * right.log(), -torch.inf), -1)
    changed = ~pair.agree(candidate, right, CLEAR_FACTOR * pair.allowed)
    if not bool(pair.agree(got, candidate, 2 * pair.allowed).all()) or not pair.beats_chance(got[changed]):
        return ""
    factor = describe_factor(abs(power), sizes_of(pair, inputs), 3e-5)
    if power < 0:
        extra = "" if abs(power + 1) < 1e-3 else f" and are {factor}"
        return f"The weights are those of scores that have the wrong sign{extra}."
    return f"The weights are too {'sharp' if power > 1 else 'flat'}: the scores in the softmax are {factor}."
