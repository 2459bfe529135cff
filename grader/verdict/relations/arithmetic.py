"""Relations by arithmetic: a factor, an offset, a sign, a square, a missing term."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from grader.verdict.relations.pair import CLEAR_FACTOR, Pair, constant_name, format_number, inputs_with_names
from torch import Tensor

# the relative error of a factor from float32 and an epsilon; roots of integers lie much farther apart
MIN_SPREAD = 3e-6


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
    if found := _explain_scale(pair, inputs) or _explain_offset(pair):
        return found
    candidates = [*_with_inputs(pair, inputs), *_functions(pair)]
    finite = ((value, said) for value, said in candidates if bool(value.isfinite().all()))
    found = next((said for value, said in finite if pair.is_explained_by(value)), "")
    return found or _explain_dropout(pair)


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


def _explain_scale(pair: Pair, inputs: Sequence[Tensor]) -> str:
    size = pair.expected.abs()
    if not bool(pair.clear(pair.expected).sum() >= 3) or pair.count_distinct(size.flatten()) < 2:
        return ""
    factor, largest = _fit_factor(pair.got, pair.expected), float(size.max())
    tolerance = pair.allowed / largest
    if abs(factor) < 1e-9 or abs(abs(factor) - 1) <= max(CLEAR_FACTOR * tolerance, 1e-9):
        return ""
    slack = max(pair.allowed, 1e-9 * largest) * min(1.0, abs(factor)) * max(1.0, abs(factor) * 0.1)
    error = float((pair.got - factor * pair.expected).abs().max())
    if error > slack:
        return ""
    # A test may allow much, but a true sqrt(32) agrees to the last digits; another factor only comes near.
    spread = max(error / float((factor * pair.expected).abs().max()), MIN_SPREAD)
    words = describe_factor(abs(factor), sizes_of(pair, inputs), min(tolerance, spread))
    return f"Every value is {words}" + (", and has the wrong sign." if factor < 0 else ".")


def _explain_offset(pair: Pair) -> str:
    difference = (pair.got - pair.expected).flatten()
    offset = float(difference.mean())
    varied = difference.numel() >= 3 and pair.count_distinct(pair.expected.flatten()) >= 3
    constant = bool(((difference - offset).abs() <= pair.allowed).all())
    if not varied or not constant or abs(offset) <= CLEAR_FACTOR * pair.allowed:
        return ""
    way = "large" if offset > 0 else "small"
    return f"Every value is {format_number(abs(offset))} too {way}: the same constant is added to all."


def _with_inputs(pair: Pair, inputs: Sequence[Tensor]) -> Iterator[tuple[Tensor, str]]:
    """The right result combined with an input, and a sentence for each."""
    for name, tensor in inputs_with_names(inputs):
        if not tensor.is_floating_point() or not 3 <= tensor.numel() <= pair.got.numel():
            continue
        try:
            wide = tensor.detach().to(pair.expected.dtype).expand(pair.shape)
        except RuntimeError:
            continue
        if not bool(wide.isfinite().all()) or pair.count_distinct(wide.flatten()) < 3:
            continue
        yield pair.expected + wide, f"It is the right result plus {name}: {name} is added once too often."
        yield pair.expected - wide, f"It is the right result minus {name}: {name} is missing, or subtracted."
        yield pair.expected * wide, f"It is the right result times {name}."


def _functions(pair: Pair) -> Iterator[tuple[Tensor, str]]:
    """Functions of the right result, and a sentence for each."""
    right = pair.expected
    if pair.got.numel() < 3 or pair.count_distinct(right.flatten()) < 3:
        return
    yield right * right, "Every value is the square of the right one."
    yield 1 - right, "Every value is one minus the right one."
    yield right.exp(), "Every value is the exponential of the right one: exp(x) instead of x."
    yield right.abs(), "The absolute values are right, but no value is negative."
    if bool((right >= 0).all()):
        yield right.sqrt(), "Every value is the square root of the right one."
        yield right.log(), "Every value is the logarithm of the right one: log(x) instead of x."
    if bool(pair.clear(right).all()):
        yield 1 / right, "Every value is one divided by the right one."


def _explain_dropout(pair: Pair) -> str:
    """Some values are zero and all others larger by one factor: dropout is still on."""
    gone = (pair.got == 0) & pair.clear(pair.expected)
    kept = ~gone & pair.clear(pair.expected)
    lost, left = int(gone.sum()), int(kept.sum())
    if lost < 2 or left < 3 or pair.count_distinct(pair.expected[kept].abs()) < 3:
        return ""
    factor = _fit_factor(pair.got[kept], pair.expected[kept])
    clearly_above_one = factor > 1 + CLEAR_FACTOR * pair.allowed / float(pair.expected.abs().max())
    if not clearly_above_one or not bool((pair.agree(pair.got, factor * pair.expected) | gone).all()):
        return ""
    zeros = f"{lost} of {lost + left} values are zero, and all others are {format_number(factor)} times too large"
    return f"{zeros}, as after dropout with p={format_number(1 - 1 / factor)}."
