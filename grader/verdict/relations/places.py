"""The places of the wrong values: one position, some rows, a triangle; and values that are not finite."""

from __future__ import annotations

import torch
from grader.verdict.relations.pair import Pair
from grader.verdict.relations.phrases import format_number, slice_names
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
        sentences.append("All other values are right.")
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
        sentences.append("All other values are right.")
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
        return f"{named.capitalize()} {'is' if count == 1 else 'are'} all {kind}{zeros}."
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
        return f"Only one value of {total} is wrong, at {wrong.nonzero()[0].tolist()}; the others are right."
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
    return f"Only values {touched[0]}{' of the last two axes' if pair.got.ndim > 2 else ''} are wrong."


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
    said = _describe_slices(found[0][2], found[0][1], pair.shape)
    if len(found) > 1 and said.endswith(("wrong", "are right")) and "Only" in said and "wrong" in said:
        flags = found[1][2]
        said += f", and there only {slice_names([i for i, bad in enumerate(flags) if bad], found[1][1], pair.shape)}"
    return said + "."


def _right_slices(flags: list[bool], axis: int, shape: tuple[int, ...]) -> Tensor:
    beside = [1] * len(shape)
    beside[axis] = len(flags)
    return ~torch.tensor(flags).reshape(beside).expand(shape)


def _describe_slices(flags: list[bool], axis: int, shape: tuple[int, ...]) -> str:
    bad, good = [i for i, flag in enumerate(flags) if flag], [i for i, flag in enumerate(flags) if not flag]
    if len(good) == 1 and len(flags) > 2 or len(good) < len(bad):
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
