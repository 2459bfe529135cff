"""Another shape, another type, less precision and another mask are described as such."""

from __future__ import annotations

from itertools import permutations

import torch
from hypothesis import given
from hypothesis import strategies as st
from related import LOWER, normal, said, seeds


@given(shape=st.lists(st.integers(2, 4), min_size=3, max_size=4, unique=True).map(tuple), seed=seeds, which=st.integers(1, 23))
def test_axes_of_another_order(shape, seed, which):
    orders = list(permutations(range(len(shape))))
    order = orders[1 + which % (len(orders) - 1)]
    x = normal(*shape, seed=seed)
    text = said(x.permute(order), x)
    assert "With the axes in the right order, every value is right." in text
    swapped = [i for i, j in enumerate(order) if i != j]
    assert (f"axes {swapped[0]} and {swapped[1]} are swapped" if len(swapped) == 2 else "the axes are in the order") in text


def test_shapes():
    x = normal(2, 3, 4)
    right = "The values are right; only the shape is wrong."
    assert said(x.unsqueeze(1), x) == f"Only axes of size 1 are too many: (2, 1, 3, 4) instead of (2, 3, 4). {right}"
    assert said(x[:1].squeeze(0), x[:1]) == f"Only axes of size 1 are missing: (3, 4) instead of (1, 3, 4). {right}"
    assert said(x.reshape(2, 12), x) == f"Axes 1 and 2 of (2, 3, 4) were merged into one. {right}"
    assert said(x.reshape(2, 3, 2, 2), x) == f"Axis 2 of (2, 3, 4) was split in two: (2, 3, 2, 2). {right}"
    assert said(x.reshape(4, 6), x) == f"The number of values (24) is right, but the shape is (4, 6) instead of (2, 3, 4). {right}"
    assert said(x.mean(1), x) == "Axis 1 of (2, 3, 4) (size 3) is missing: this is the right result averaged over it."
    assert "summed over" in said(x.sum(-1, keepdim=True), x)
    assert "last index of" in said(x[:, -1], x)
    assert said(normal(2, 4), x) == "The second axis of (2, 3, 4) (axis 1, size 3) is missing."
    assert said(x[:, :-1], x) == "Axis 1 has size 2; it should have size 3. Along this axis the last is missing; all other values are right."
    assert said(x[1:], x).endswith("Along this axis the first is missing; all other values are right.")
    assert said(torch.cat([x, x[:, :1]], 1), x).endswith("Along this axis the last is too many; all other values are right.")
    assert said(x.sum(), x) == ""
    assert said(normal(5, 7), x) == ""
    assert "without axes" in said(torch.tensor(1.0), torch.tensor([1.0]))


def test_types():
    x = normal(3, 4) * 3
    assert said(x.long(), x) == "It has integers (int64); its dtype should be float32. They are the right values truncated to integers."
    assert said(x.double(), x, x) == ("Its dtype is float64; it should be float32, as in the input. The values are right; only the dtype is wrong.")
    assert said(x.double() * 2.5, x).endswith("Every value is 2.5 times too large.")
    assert "use True for 1" in said(LOWER.float(), LOWER)
    assert "an additive mask" in said(torch.zeros(5, 5).masked_fill(~LOWER, -torch.inf), LOWER)
    assert said(torch.arange(4.0), torch.arange(4)) == ("Its dtype is float32; it should have integers (int64). The values are right; only the dtype is wrong.")
    assert said(torch.zeros(0), torch.zeros(0, dtype=torch.int64)) == "Its dtype is float32; it should have integers (int64)."


def test_lost_precision():
    x = normal(4, 5)
    assert said(x.bfloat16().float(), x).startswith("Close but not equal: every value is rounded to bfloat16")
    assert said(x + 1e-3 * torch.rand(4, 5, generator=torch.Generator().manual_seed(1)), x).startswith("Close but not equal: the largest difference is")


def test_masks():
    assert said(~LOWER, LOWER).startswith("It is inverted")
    assert said(torch.ones_like(LOWER), LOWER) == "Every value is True; 10 of 25 should be False."
    assert said(torch.zeros_like(LOWER), LOWER) == "Every value is False; 15 of 25 should be True."
    assert said(LOWER.tril(-1), LOWER) == "The diagonal is off by 1: row i is True up to column i - 1; it should be True up to column i."
    assert said(LOWER.T, LOWER) == "It is the other triangle: row i is True from column i on; it should be True up to column i."
    wide = torch.ones(3, 5, dtype=torch.bool)
    assert said(wide.tril(), wide.tril(2)) == "The diagonal is off by 2: row i is True up to column i; it should be True up to column i + 2."
