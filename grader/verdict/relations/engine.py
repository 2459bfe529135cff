"""`explain`: which relations are asked about, and in what order."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from grader.verdict.relations.arithmetic import computed, flat
from grader.verdict.relations.masks import counted, mask
from grader.verdict.relations.order import from_inputs, moved, shifted
from grader.verdict.relations.pair import Pair
from grader.verdict.relations.places import close_by, not_finite, where
from grader.verdict.relations.shapes import explain_shape, explain_type
from grader.verdict.relations.weights import around_softmax, sums, zeros
from torch import Tensor


def explain(got: Tensor, expected: Tensor, tol: float, inputs: Sequence[Tensor] = ()) -> list[str]:
    """What a wrong tensor has to do with the right one, in at most two sentences, the most telling first.

    `tol` is relative to the largest finite value of `expected`. A relation is told only when it holds within it, when the right
    answer itself does not have it, and when more than one value speaks for it; else the list is empty.
    """
    with torch.no_grad():
        return _sentences(got, expected, tol, inputs)[:2]


def _sentences(got: Tensor, expected: Tensor, tol: float, inputs: Sequence[Tensor]) -> list[str]:
    if got.is_meta or expected.is_meta:  # no values to compare
        return []
    if got.shape != expected.shape:
        return explain_shape(got, expected, tol)
    if got.numel() == 0:
        return [] if got.dtype == expected.dtype else explain_type(got, expected, tol, ())[:1]
    pair = Pair.of(got, expected, tol)
    if got.dtype != expected.dtype:
        told = explain_type(got, expected, tol, inputs)
        comparable = got.dtype != torch.bool and expected.dtype != torch.bool
        return told if len(told) > 1 or not comparable else told + _values(pair, inputs)
    return _values(pair, inputs)


def _values(pair: Pair, inputs: Sequence[Tensor]) -> list[str]:
    """Values of one shape: one relation that explains them all, or up to two that explain some."""
    if not bool(pair.wrong.any()):
        return []
    if pair.logical:
        return mask(pair) or _one(moved(pair) or shifted(pair) or counted(pair) or where(pair))
    softmax = around_softmax(pair, inputs)
    if softmax:
        return [softmax]
    strange = not_finite(pair)
    if strange:
        return strange
    near = close_by(pair)
    if near:
        return [near, *_one(where(pair))]
    whole = flat(pair) or from_inputs(pair, inputs) or moved(pair) or shifted(pair) or computed(pair, inputs)
    if whole:
        return [whole]
    total, zero = sums(pair), zeros(pair)
    if zero.startswith("Zeros stand where"):
        return [zero]
    if total.endswith("does."):
        return [total]
    return [sentence for sentence in (total, zero, where(pair)) if sentence]


def _one(sentence: str) -> list[str]:
    return [sentence] if sentence else []
