"""How a wrong tensor differs from the right one: `explain` tries the relations in a fixed order."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from grader.verdict.relations.arithmetic import explain_arithmetic, explain_constant
from grader.verdict.relations.masks import (
    explain_mask,
    explain_softmax,
    explain_sums,
    explain_zeros,
)
from grader.verdict.relations.pair import Complete, Pair
from grader.verdict.relations.places import (
    explain_copied_input,
    explain_not_finite,
    explain_places,
    explain_reordering,
    explain_rounding,
    explain_shift,
)
from grader.verdict.relations.shapes import explain_shape, explain_type
from torch import Tensor


def explain(got: Tensor, expected: Tensor, tol: float, inputs: Sequence[Tensor] = ()) -> list[str]:
    """How a wrong tensor differs from the right one, in at most two sentences, the most informative first.

    `tol` is relative to the largest finite value of `expected`. A relation is reported only if it holds within this
    tolerance, if the right result itself does not have it, and if the agreement is not a coincidence; else the list is
    empty.
    """
    if got.is_meta or expected.is_meta:  # no values to compare
        return []
    with torch.no_grad():
        if got.shape != expected.shape:
            found = explain_shape(got, expected, tol)
        elif got.dtype != expected.dtype:
            found = explain_type(got, expected, tol, inputs)
            comparable = got.numel() and torch.bool not in (got.dtype, expected.dtype)
            found += _explain_values(got, expected, tol, inputs) if not any(found[1:]) and comparable else []
        else:
            found = _explain_values(got, expected, tol, inputs) if got.numel() else []
    return [sentence for sentence in found if sentence][:2]


def _explain_values(got: Tensor, expected: Tensor, tol: float, inputs: Sequence[Tensor]) -> list[str]:
    """For tensors of the same shape: one relation that explains all values, or some that explain a part."""
    pair = Pair.of(got, expected, tol)
    if not bool(pair.wrong.any()):
        return []
    if pair.logical:
        whole = explain_mask(pair) or explain_reordering(pair) or explain_shift(pair)
        return [whole or explain_places(pair)]
    if softmax := explain_softmax(pair, inputs):
        return [softmax]
    if not_finite := explain_not_finite(pair):
        return not_finite
    if near := explain_rounding(pair):
        return [near, explain_places(pair)]
    whole = explain_constant(pair) or explain_copied_input(pair, inputs) or explain_reordering(pair)
    if whole := whole or explain_shift(pair) or explain_arithmetic(pair, inputs):
        return [whole]
    total, zero = explain_sums(pair), explain_zeros(pair)
    complete: list[str] = [said for said in (zero, total) if isinstance(said, Complete)]
    return complete[:1] or [total, zero, explain_places(pair)]
