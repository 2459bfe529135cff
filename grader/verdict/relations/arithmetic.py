"""Relations by arithmetic: a factor, an offset, a sign, a square, a missing term."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from grader.verdict.relations.pair import CLEARLY, Pair
from grader.verdict.relations.phrases import constant_name, format_number, ordinal
from torch import Tensor

LEAST_SPREAD = 3e-6  # the error of a factor from float32 and an epsilon; roots of integers lie much farther apart


def explain_constant(pair: Pair) -> str:
    """All zeros, or the same value everywhere, if the right result is not constant."""
    got, right = pair.got.flatten(), pair.expected.flatten()
    if pair.logical or pair.count_distinct(right) < 2 or not bool((got == got[0]).all()):
        return ""
    if got[0] == 0:
        return "Every value is zero."
    if got.numel() < 3 or not pair.finite:
        return ""
    return f"Every value is the same: {format_number(float(got[0])) if pair.real else got[0].item()}."


def explain_arithmetic(pair: Pair, inputs: Sequence[Tensor]) -> str:
    """A sentence if one arithmetic operation on the right values gives the wrong ones."""
    if not pair.finite or pair.got.numel() < 2 or pair.logical:
        return ""
    if pair.is_explained_by(-pair.expected):
        return "Every value has the wrong sign."
    if not pair.real:
        return "It is the complex conjugate of the right result." if pair.is_explained_by(pair.expected.conj()) else ""
    return (
        _explain_scale(pair, inputs)
        or _explain_offset(pair)
        or _explain_input_term(pair, inputs)
        or _explain_function(pair)
        or _explain_dropout(pair)
        or _explain_vector(pair)
    )


def describe_factor(factor: float, sizes: Iterable[int], precision: float) -> str:
    """A positive factor in words: "2.83 times too large, which is sqrt(8)"."""
    up, way = (factor, "large") if factor > 1 else (1 / factor, "small")
    name = constant_name(up, sizes, precision)
    return f"{format_number(up)} times too {way}" + (f", which is {name}" if name and name != format_number(up) else "")


def sizes_of(pair: Pair, inputs: Sequence[Tensor]) -> set[int]:
    """The sizes of all axes, and the products of two axes of the result."""
    own = [n for n in pair.shape if n > 1]
    pairs = {a * b for i, a in enumerate(own) for b in own[i + 1 :]} if len(own) > 2 else set()
    return set(own) | pairs | {n for tensor in inputs for n in tensor.shape if n > 1}


def _fit_factor(got: Tensor, right: Tensor) -> float:
    square = float((right * right).sum())
    return float((got * right).sum()) / square if square > 0 else 0.0


def _precision(pair: Pair) -> float:
    return pair.allowed / float(pair.expected.abs().max())


def _factor_spread(pair: Pair, factor: float) -> float:
    """The relative error of this factor. A test may allow much, but a true sqrt(32) agrees to the last digits; another factor only comes near."""
    size = float((factor * pair.expected).abs().max())
    return max(float((pair.got - factor * pair.expected).abs().max()) / size, LEAST_SPREAD)


def _explain_scale(pair: Pair, inputs: Sequence[Tensor]) -> str:
    size = pair.expected.abs()
    if not bool((size > CLEARLY * pair.allowed).sum() >= 3) or pair.count_distinct(size.flatten()) < 2:
        return ""
    factor = _fit_factor(pair.got, pair.expected)
    tolerance = _precision(pair)
    if abs(factor) < 1e-9 or abs(factor - 1) <= max(CLEARLY * tolerance, 1e-9) or abs(factor + 1) <= max(CLEARLY * tolerance, 1e-9):
        return ""
    slack = max(pair.allowed, 1e-9 * float(size.max())) * min(1.0, abs(factor))
    if not bool(((pair.got - factor * pair.expected).abs() <= slack * max(1.0, abs(factor) * 0.1)).all()):
        return ""
    words = describe_factor(abs(factor), sizes_of(pair, inputs), min(tolerance, _factor_spread(pair, factor)))
    return f"Every value is {words}" + (", and has the wrong sign." if factor < 0 else ".")


def _explain_offset(pair: Pair) -> str:
    difference = (pair.got - pair.expected).flatten()
    offset = float(difference.mean())
    if difference.numel() < 3 or pair.count_distinct(pair.expected.flatten()) < 3 or abs(offset) <= CLEARLY * pair.allowed:
        return ""
    if not bool(((difference - offset).abs() <= pair.allowed).all()):
        return ""
    return f"Every value is {format_number(abs(offset))} too {'large' if offset > 0 else 'small'}: the same constant is added to all."


def _explain_input_term(pair: Pair, inputs: Sequence[Tensor]) -> str:
    for which, tensor in enumerate(inputs):
        if not tensor.is_floating_point() or tensor.numel() > pair.got.numel() or tensor.numel() < 3:
            continue
        name = "the input" if len(inputs) == 1 else f"the {ordinal(which)} tensor argument"
        try:
            wide = tensor.detach().to(torch.float64).expand(pair.shape)
        except RuntimeError:
            continue
        if not bool(wide.isfinite().all()) or pair.count_distinct(tensor.detach().flatten().to(torch.float64)) < 3:
            continue
        tails = {
            "plus": (pair.expected + wide, f"{name} is added once too often"),
            "minus": (pair.expected - wide, f"{name} is missing, or subtracted"),
            "times": (pair.expected * wide, f"it is multiplied by {name}"),
        }
        for sign, (candidate, meaning) in tails.items():
            if pair.is_explained_by(candidate):
                return f"It is the right result {sign} {name}." if sign == "times" else f"It is the right result {sign} {name}: {meaning}."
    return ""


def _explain_function(pair: Pair) -> str:
    right = pair.expected
    if pair.got.numel() < 3 or pair.count_distinct(right.flatten()) < 3:
        return ""
    positive = bool((right > 0).all())
    ways = [
        (right * right, "Every value is the square of the right one."),
        (1 - right, "Every value is one minus the right one."),
        (right.exp(), "Every value is the exponential of the right one: exp(x) instead of x."),
        (right.abs(), "The absolute values are right, but no value is negative."),
    ]
    if bool((right >= 0).all()):
        ways.append((right.sqrt(), "Every value is the square root of the right one."))
    if positive:
        ways.append((right.log(), "Every value is the logarithm of the right one: log(x) instead of x."))
    if bool((right.abs() > CLEARLY * pair.allowed).all()):
        ways.append((1 / right, "Every value is one divided by the right one."))
    below = right < -CLEARLY * pair.allowed
    if int(below.sum()) > 1 and pair.beats_chance(pair.got[right > 0]) and pair.all_agree(pair.got, right.clamp(min=0)):
        return "The negative values are replaced by zero; the others are right."
    return next((said for value, said in ways if bool(value.isfinite().all()) and pair.is_explained_by(value)), "")


def _explain_dropout(pair: Pair) -> str:
    """Some values are zero and all others larger by one factor: dropout is still on."""
    gone = (pair.got == 0) & (pair.expected.abs() > CLEARLY * pair.allowed)
    kept = ~gone & (pair.expected.abs() > CLEARLY * pair.allowed)
    lost, left = int(gone.sum()), int(kept.sum())
    if lost < 2 or left < 3 or pair.count_distinct(pair.expected[kept].abs()) < 3:
        return ""
    factor = _fit_factor(pair.got[kept], pair.expected[kept])
    if factor <= 1 + CLEARLY * _precision(pair) or bool((pair.agree(pair.got, factor * pair.expected) | gone).logical_not().any()):
        return ""
    rate = 1 - 1 / factor
    zeros = f"{lost} of {lost + left} values are zero, and all others are {format_number(factor)} times too large"
    return f"{zeros}, as after dropout with p={format_number(rate)}."


def _explain_vector(pair: Pair) -> str:
    """The same vector added to, or multiplied into, every row."""
    if pair.got.ndim < 2 or pair.shape[-1] < 2:
        return ""
    rows, right = pair.got.reshape(-1, pair.shape[-1]), pair.expected.reshape(-1, pair.shape[-1])
    if len(rows) > 2 and _same_difference(pair, rows, right):
        return "Every row differs by the same vector: a vector added along the last axis is missing or wrong."
    if pair.got.ndim > 2 and _same_difference(pair, pair.got.reshape(pair.shape[0], -1), pair.expected.reshape(pair.shape[0], -1)):
        return "The difference from the right result is the same for every index of axis 0."
    if len(rows) < 3:
        return ""
    factors = (rows * right).sum(0) / (right * right).sum(0).clamp(min=1e-300)
    if pair.count_distinct(factors) < 2 or bool(((rows - factors * right).abs() > pair.allowed).any()):
        return ""
    enough = bool(((right.abs() > CLEARLY * pair.allowed).sum(0) >= 3).all())
    if not enough or any(pair.count_distinct(right[:, column].abs()) < 2 for column in (0, -1)):
        return ""
    return "Every row is multiplied by the same vector: a factor along the last axis is missing or wrong."


def _same_difference(pair: Pair, rows: Tensor, right: Tensor) -> bool:
    """Whether each row differs from the right one by the same vector, mostly not zero, while the right rows differ from each other."""
    difference = rows - right
    if len(rows) < 2 or pair.count_distinct(difference[0]) < 2 or bool(((difference - difference[0]).abs() > 2 * pair.allowed).any()):
        return False
    most = 2 * int((difference[0].abs() > CLEARLY * pair.allowed).sum()) > difference.shape[1]
    return most and bool(((right - right[0]).abs() > CLEARLY * pair.allowed).any())
