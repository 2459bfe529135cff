"""`explain`: tries the relations in a fixed order."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from grader.verdict.relations.arithmetic import explain_arithmetic, explain_constant
from grader.verdict.relations.masks import explain_extra_values, explain_mask
from grader.verdict.relations.order import explain_copied_input, explain_reordering, explain_shift
from grader.verdict.relations.pair import Pair
from grader.verdict.relations.places import explain_not_finite, explain_places, explain_rounding
from grader.verdict.relations.shapes import explain_shape, explain_type
from grader.verdict.relations.weights import explain_softmax, explain_sums, explain_zeros
from torch import Tensor


def explain(got: Tensor, expected: Tensor, tol: float, inputs: Sequence[Tensor] = ()) -> list[str]:
    """How a wrong tensor differs from the right one, in at most two sentences, the most informative first.

    `tol` is relative to the largest finite value of `expected`. A relation is reported only if it holds within this tolerance, if the
    right result itself does not have it, and if the agreement is not a coincidence; else the list is empty.
    """
    with torch.no_grad():
        return _explain_tensors(got, expected, tol, inputs)[:2]


def _explain_tensors(got: Tensor, expected: Tensor, tol: float, inputs: Sequence[Tensor]) -> list[str]:
    if got.is_meta or expected.is_meta:  # no values to compare
        return []
    if got.shape != expected.shape:
        return explain_shape(got, expected, tol)
    if got.numel() == 0:
        return [] if got.dtype == expected.dtype else explain_type(got, expected, tol, ())[:1]
    pair = Pair.of(got, expected, tol)
    if got.dtype != expected.dtype:
        explanation = explain_type(got, expected, tol, inputs)
        comparable = got.dtype != torch.bool and expected.dtype != torch.bool
        return explanation if len(explanation) > 1 or not comparable else explanation + _explain_values(pair, inputs)
    return _explain_values(pair, inputs)


def _explain_values(pair: Pair, inputs: Sequence[Tensor]) -> list[str]:
    """For tensors of the same shape: one relation that explains all values, or up to two that explain some."""
    if not bool(pair.wrong.any()):
        return []
    if pair.logical:
        return explain_mask(pair) or _as_list(explain_reordering(pair) or explain_shift(pair) or explain_extra_values(pair) or explain_places(pair))
    softmax = explain_softmax(pair, inputs)
    if softmax:
        return [softmax]
    not_finite = explain_not_finite(pair)
    if not_finite:
        return not_finite
    near = explain_rounding(pair)
    if near:
        return [near, *_as_list(explain_places(pair))]
    whole = explain_constant(pair) or explain_copied_input(pair, inputs) or explain_reordering(pair) or explain_shift(pair) or explain_arithmetic(pair, inputs)
    if whole:
        return [whole]
    total, zero = explain_sums(pair), explain_zeros(pair)
    if zero.startswith("The zeros are where"):
        return [zero]
    if total.endswith("does."):
        return [total]
    return [sentence for sentence in (total, zero, explain_places(pair)) if sentence]


def _as_list(sentence: str) -> list[str]:
    return [sentence] if sentence else []
