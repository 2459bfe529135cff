"""Every relation between the values of two tensors is described if it holds."""

from __future__ import annotations

import math

import pytest
import torch
from grader.verdict.relations import explain
from grader.verdict.relations.pair import Locating
from hypothesis import given
from hypothesis import strategies as st
from related import LOWER, normal, said, seeds, shapes


@given(n=st.integers(3, 6), batch=st.integers(1, 3), seed=seeds)
def test_transposed(n, batch, seed):
    x = normal(n, n, seed=seed)
    assert said(x.T, x) == "It is transposed: rows and columns are swapped."
    stack = normal(batch, n, n, seed=seed)
    if batch != n:
        assert said(stack.mT, stack) == "Axes 1 and 2 are swapped."


def test_symmetric_matrices_are_not_called_transposed():
    x = normal(4, 4)
    symmetric = x + x.T
    assert "swap" not in said(symmetric.T + normal(4, 4, seed=1), symmetric)
    assert said(symmetric.T * 3, symmetric) == "Every value is 3 times too large."


@given(shape=shapes, axis=st.integers(0, 3), seed=seeds)
def test_reversed(shape, axis, seed):
    axis %= len(shape)
    x = normal(*shape, seed=seed)
    text = said(x.flip(axis), x)
    assert f"axis {axis}" in text
    assert ("reverse order" if shape[axis] > 2 else "swapped") in text


@given(shape=shapes, axis=st.integers(0, 3), late=st.booleans(), seed=seeds)
def test_rolled_and_shifted_by_one(shape, axis, late, seed):
    axis %= len(shape)
    if shape[axis] < 3:
        shape = shape[:axis] + (4,) + shape[axis + 1 :]
    x = normal(*shape, seed=seed)
    rolled = x.roll(1 if late else -1, axis)
    way = f"along axis {axis}", "one place too " + ("late" if late else "early")
    text = said(rolled, x).lower()
    assert all(part in text for part in way) and "is now at the" in text
    rolled.select(axis, 0 if late else -1).zero_()
    text = said(rolled, x).lower()
    assert all(part in text for part in way)
    assert f"the {'first' if late else 'last'} is zeros" in text
    rolled.select(axis, 0 if late else -1).copy_(normal(*shape, seed=seed + 5000).select(axis, 0))
    text = said(rolled, x).lower()
    assert all(part in text for part in way) and "zeros" not in text


def test_shifted_targets():
    ids = torch.tensor([5, 9, 2, 8, 1, 7])
    assert "one place too late" in said(ids[:-1], ids[1:])


def test_view_instead_of_transpose():
    z = normal(2, 4, 12)
    heads = z.view(2, 4, 3, 4).transpose(1, 2)
    assert said(z.view(2, 3, 4, 4), heads, z) == "It is the input, of shape (2, 4, 12), reshaped to (2, 3, 4, 4) without moving an axis."
    y = normal(2, 3, 4, 6)
    assert "without moving an axis" in said(y.reshape(2, 4, 18), y.transpose(1, 2).reshape(2, 4, 18), y)
    assert "view and transpose are mixed up" in said(y.transpose(1, 2).reshape(2, 3, 4, 6), y)


def test_interleaved():
    x = normal(2, 3, 12)
    assert "size 12 was split into 3 by 4 and joined in the wrong order" in said(x.view(2, 3, 3, 4).transpose(-1, -2).reshape(2, 3, 12), x)
    assert "neighbours are swapped" in said(x.view(2, 3, 6, 2).flip(-1).reshape(2, 3, 12), x)
    assert "two halves along axis 2" in said(x.roll(6, -1), x)


def test_right_numbers_elsewhere():
    x = normal(3, 6)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    assert "has the right numbers in the wrong order" in said(x[:, order], x)
    assert said(torch.stack([row[torch.randperm(6, generator=torch.Generator().manual_seed(i))] for i, row in enumerate(x)]), x).startswith(
        "Each row has the right numbers"
    )
    assert "the wrong places" in said(x.flatten()[torch.randperm(18, generator=torch.Generator().manual_seed(3))].view(3, 6), x)


@given(shape=shapes, seed=seeds, d=st.sampled_from([3, 5, 6, 7, 8, 12, 64]), down=st.booleans(), sign=st.sampled_from([1, -1]))
def test_scaled_by_a_root(shape, seed, d, down, sign):
    x = normal(*shape, seed=seed)
    text = said(sign * (x / math.sqrt(d) if down else x * math.sqrt(d)), x, normal(2, d))
    assert f"times too {'small' if down else 'large'}" in text
    root = math.isqrt(d)
    assert f"sqrt({d})" in text and f"{math.sqrt(d):.3g} times" in text if root * root != d or d in shape else f"{root} times" in text
    assert ("wrong sign" in text) == (sign < 0)


def test_a_factor_near_a_root_is_not_called_a_root():
    """A test that allows 1e-4 accepts 5.6573 for sqrt(32); the values themselves agree on it far more exactly."""
    x = normal(3, 5)
    assert said(x * 5.6573, x, tol=1e-4) == "Every value is 5.66 times too large."
    assert said(x * math.sqrt(32), x, tol=1e-4) == "Every value is 5.66 times too large, which is sqrt(32)."


@pytest.mark.parametrize(
    ("factor", "words"),
    [
        (2, "2 times too large."),
        (0.5, "2 times too small."),
        (math.pi, "3.14 times too large, which is pi."),
        (math.pi / 180, "57.3 times too small, which is 180/pi, the degrees in a radian."),
        (1 / math.log(2), "1.44 times too large, which is 1/ln(2)."),
        (5, "5 times too large, which is the size of an axis."),
        (1.2345, "1.23 times too large."),
    ],
)
def test_scaled_by_a_known_constant(factor, words):
    x = normal(3, 5)
    assert said(x * factor, x) == f"Every value is {words}"


def test_constants_are_not_named_at_low_precision():
    x = normal(3, 5).bfloat16()
    assert "which is" not in said(x * 2.25, x, tol=3e-2)


@given(shape=shapes, seed=seeds)
def test_sign_offset_square_and_friends(shape, seed):
    x = normal(*shape, seed=seed)
    positive = x.abs() + 0.1
    assert said(-x, x) == "Every value has the wrong sign."
    assert said(x + 0.5, x) == "Every value is 0.5 too large: the same constant is added to all."
    assert said(x - 3, x) == "Every value is 3 too small: the same constant is added to all."
    assert "square of" in said(x * x, x)
    assert "square root" in said(positive.sqrt(), positive)
    assert "logarithm" in said(positive.log(), positive)
    assert "exponential" in said(x.exp(), x)
    assert "one divided by" in said(1 / positive, positive)
    assert "one minus" in said(1 - x, x)
    assert said(torch.zeros_like(x), x) == "Every value is zero."
    assert said(torch.full_like(x, 3), x) == "Every value is the same: 3."


def test_inputs():
    x, y = normal(3, 4), normal(3, 4, seed=1)
    right = x @ normal(4, 4, seed=2)
    assert said(x, right, x) == "It equals the input, unchanged."
    assert said(y, right, x, y) == "It equals the second tensor argument, unchanged."
    assert "the right result minus the input" in said(right, right + x, x)
    assert "the right result plus the input" in said(right + x, right, x)


def test_the_input_is_not_named_if_it_is_the_right_answer_too():
    x = normal(3, 4)
    assert said(x + 1e-9, x, x) == ""
    assert "input" not in said(x + normal(3, 4, seed=3), x, x)


def test_dropout():
    x = normal(2, 3, 6)
    keep = normal(2, 3, 6, seed=6) > -0.3
    gone = int((~keep).sum())
    assert said(x * keep / 0.75, x) == f"{gone} of 36 values are zero, and all others are 1.33 times too large, as after dropout with p=0.25."


@given(shape=shapes, axis=st.integers(0, 3), seed=seeds, index=st.integers(0, 9))
def test_some_slices_only(shape, axis, seed, index):
    axis %= len(shape)
    if shape[axis] < 3:
        shape = shape[:axis] + (4,) + shape[axis + 1 :]
    x, other = normal(*shape, seed=seed), normal(*shape, seed=seed + 5000)
    index %= shape[axis]
    one_wrong, one_right = x.clone(), other.clone()
    one_wrong.select(axis, index).copy_(other.select(axis, index))
    one_right.select(axis, index).copy_(x.select(axis, index))
    name = f"{('row', 'column')[axis]} {index}" if len(shape) == 2 else f"index {index} of axis {axis}"
    place = {0: " (the first)", shape[axis] - 1: " (the last)"}.get(index, "")
    assert said(one_wrong, x).startswith(f"Only {name}{place} is wrong")
    assert said(one_right, x) == f"Only {name}{place} is right."


def test_one_value_and_triangles():
    x = normal(5, 5)
    wrong = x.clone()
    wrong[1, 3] += 1
    assert said(wrong, x) == "Only one value of 25 is wrong, at [1, 3]; the others are right."
    other = normal(5, 5, seed=1)
    assert said(torch.where(LOWER, x, other), x) == "Only values above the diagonal are wrong."
    assert said(torch.where(LOWER.T, x, other), x) == "Only values below the diagonal are wrong."
    assert said(torch.where(torch.eye(5).bool(), other, x), x) == "Only values on the diagonal are wrong."
    product = normal(3, 4, 5)
    product[1, :, 2:] += normal(4, 3, seed=8)
    assert said(product, normal(3, 4, 5)) == "Only index 1 of axis 0 is wrong, and there only indices 2 to 4 of axis 2."


def test_structural_agreement_is_no_evidence():
    """The first row of causal weights is one and zeros in every implementation."""
    weights = [normal(5, 5, seed=i).masked_fill(~LOWER, -torch.inf).softmax(-1) for i in range(2)]
    assert said(*weights) == ""


def test_rows_that_should_sum_to_one():
    scores = normal(2, 4, 5)
    right = scores.softmax(-1)
    assert said(scores.softmax(1), right).startswith("Each row (the last axis) should sum to one; here each line along axis 1 does.")
    assert said(scores[0].softmax(0), right[0]) == "Each row should sum to one; here each column does."
    assert said(scores.flatten().softmax(0).view_as(scores), right) == "Each row (the last axis) should sum to one; here the whole tensor does."
    assert "here the sums run from" in said(scores.exp(), right)
    causal = scores[0, :, :4].masked_fill(~LOWER[:4, :4], -torch.inf).softmax(-1)
    leaking = scores[0, :, :4].softmax(-1)
    assert said(leaking, causal).startswith("All 6 values that should be zero are not, the first at [0, 1].")
    late = leaking * LOWER[:4, :4]
    assert said(late, causal).startswith("Each row should sum to one; here the sums run from")


@given(n=st.integers(2, 5), seed=seeds, d=st.sampled_from([3, 5, 6, 7, 12]), down=st.booleans())
def test_weights_that_are_too_sharp_or_too_flat(n, seed, d, down):
    scores = normal(n, 4, 3 + n, seed=seed)
    factor = 1 / math.sqrt(d) if down else math.sqrt(d)
    text = said((scores * factor).softmax(-1), scores.softmax(-1), normal(n, 2, d))
    way, size = ("flat", "small") if down else ("sharp", "large")
    assert text == f"The weights are too {way}: the scores in the softmax are {math.sqrt(d):.3g} times too {size}, which is sqrt({d})."


def test_a_root_of_the_wrong_size():
    scores, queries, keys = normal(3, 5), normal(3, 6), normal(5, 6)
    text = said((scores / math.sqrt(5)).softmax(-1), (scores / math.sqrt(6)).softmax(-1), queries, keys)
    assert text == "The weights are too sharp: the scores in the softmax are 1.1 times too large, which is sqrt(6/5)."


def test_around_the_softmax():
    scores = normal(2, 4, 5)
    hidden = (normal(4, 5, seed=1) < 0).index_fill(1, torch.tensor([0]), False)
    masked = scores.masked_fill(hidden, -torch.inf)
    right = masked.softmax(-1)
    assert said(masked, right).startswith("These are the scores before the softmax")
    assert said(right.softmax(-1), right).startswith("The softmax has been taken twice")
    assert said(masked.log_softmax(-1), right).startswith("Every value is the logarithm")
    assert said((-scores).softmax(-1), scores.softmax(-1)) == "The weights are those of scores that have the wrong sign."
    inverted = scores.masked_fill(~hidden, -torch.inf).softmax(-1).nan_to_num()
    assert said(inverted, right) == "The zeros are where the weights should be, and weights are only where zeros should be."
    causal = scores.masked_fill(~torch.ones(4, 5, dtype=torch.bool).tril(1), -torch.inf).softmax(-1)
    assert said(causal, scores.softmax(-1)).startswith("Every weight beyond column i + 1 of row i is zero, as under a causal mask; 12 of them")
    assert said(scores / scores.sum(-1, keepdim=True), scores.softmax(-1)).startswith("Weights lie between 0 and 1; here")


def test_saturated_columns_do_not_count_as_summing_to_one():
    scores = torch.tensor([[10000.0, 10001, 9999], [-10000, -10003, -9999]])
    assert "column" not in said(scores.sigmoid(), scores.softmax(-1))


def test_not_finite():
    x = normal(4, 5)
    wrong = x.clone()
    wrong[1, 2] = torch.nan
    assert said(wrong, x) == "1 of 20 values is NaN, the first at [1, 2]. All other values are right."
    wrong[3, 0] = torch.inf
    assert said(wrong, x) == "2 of 20 values are NaN or infinite, the first at [1, 2]. All other values are right."
    masked = x.clone()
    masked[2] = 0
    wrong = masked.clone()
    wrong[2] = torch.nan
    assert said(wrong, masked) == "Row 2 is all NaN, but should be zero. All other values are right."
    assert said(torch.full_like(x, torch.nan), x) == "All 20 values are NaN."
    scores = x[:, :4].masked_fill(~LOWER[:4, :4], -torch.inf)
    assert said(scores.nan_to_num(neginf=-1e9), scores) == "All 6 values that should be -inf are not, the first at [0, 1]. All other values are right."
    assert said(torch.tensor(torch.nan), torch.tensor(1.0)) == "It is NaN."
    assert said(torch.full((6,), torch.nan), torch.full((6,), -torch.inf)) == "All 6 values are NaN and should be -inf."


def test_expected_infinities_are_not_an_error():
    scores = normal(5, 5).masked_fill(~LOWER, -torch.inf)
    assert "infinite" not in said(scores + 1, scores)
    assert said(scores.clone(), scores) == ""


def test_sentences_that_only_locate_are_marked():
    x = normal(4, 5)
    row, infinite = x.clone(), x.clone()
    row[2], infinite[2] = 0.5, math.inf
    assert all(isinstance(sentence, Locating) for wrong in (row, infinite) for sentence in explain(wrong, x, 1e-5))
    assert not any(isinstance(sentence, Locating) for sentence in explain(x * 3, x, 1e-5))
