"""For unrelated tensors nothing is said, nothing raises, and the search ends."""

from __future__ import annotations

import math

import pytest
import torch
from grader.verdict.relations import explain
from hypothesis import given, settings
from hypothesis import strategies as st
from related import TOL, seeds

dtypes = st.sampled_from([torch.float32, torch.float64, torch.bfloat16, torch.complex64])


@settings(max_examples=80, deadline=None)
@given(shape=st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple), dtype=dtypes, seed=st.integers(0, 10**6))
def test_random_pairs_get_no_explanation(shape, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    got, expected, given_ = (torch.randn(shape, dtype=dtype, generator=generator) for _ in range(3))
    tol = 1e-5 if dtype != torch.bfloat16 else 1e-2
    if dtype == torch.bfloat16:
        shape = (*shape, 7)
        got, expected, given_ = (torch.randn(shape, generator=generator).to(dtype) for _ in range(3))
    assert explain(got, expected, tol, (given_,)) == []


@settings(max_examples=80, deadline=None)
@given(shape=st.lists(st.integers(3, 6), min_size=2, max_size=4).map(tuple), kind=st.sampled_from(["ids", "mask"]), seed=st.integers(0, 10**6))
def test_random_whole_numbers_get_no_explanation(shape, kind, seed):
    generator = torch.Generator().manual_seed(seed)
    got, expected = (torch.randint(0, 30 if kind == "ids" else 2, (*shape, 5), generator=generator) for _ in range(2))
    if kind == "mask":
        got, expected = got.bool(), expected.bool()
    assert explain(got, expected, 0.0) == []


@settings(max_examples=80, deadline=None)
@given(rows=st.integers(2, 6), columns=st.integers(2, 6), causal=st.booleans(), seed=st.integers(0, 10**6))
def test_random_weights_get_no_explanation(rows, columns, causal, seed):
    """Two tensors of weights share that rows sum to one and where the zeros are; that explains nothing."""
    generator = torch.Generator().manual_seed(seed)
    hidden = ~torch.ones(rows, columns, dtype=torch.bool).tril(columns - rows) if causal and columns >= rows else torch.zeros(rows, columns).bool()
    got, expected = (torch.randn(2, rows, columns, generator=generator).masked_fill(hidden, -torch.inf).softmax(-1) for _ in range(2))
    if rows > 2 or not causal:
        assert explain(got, expected, TOL) == []


@settings(max_examples=80, deadline=None)
@given(shape=st.lists(st.integers(2, 5), min_size=1, max_size=3).map(tuple), seed=st.integers(0, 10**6), other=st.integers(0, 3))
def test_random_shapes_never_claim_right_values(shape, seed, other):
    generator = torch.Generator().manual_seed(seed)
    shapes = [shape[::-1], (*shape, 3), (math.prod(shape),), tuple(n + 1 for n in shape)]
    got, expected = torch.randn(shapes[other], generator=generator), torch.randn(shape, generator=generator)
    if got.shape != expected.shape:
        assert "right;" not in " ".join(explain(got, expected, TOL)) and "every value is right" not in " ".join(explain(got, expected, TOL))


odd = st.sampled_from([torch.float16, torch.int8, torch.uint8, torch.bool, torch.complex128, torch.float32, torch.int64, torch.bfloat16])


@settings(max_examples=80, deadline=None)
@given(shape=st.lists(st.integers(0, 3), max_size=5).map(tuple), types=st.tuples(odd, odd), fill=st.floats(width=16), seed=seeds)
def test_nothing_raises(shape, types, fill, seed):
    generator = torch.Generator().manual_seed(seed)
    got, expected = (torch.randint(0, 3, shape, generator=generator).to(dtype) for dtype in types)
    if got.numel() and got.is_floating_point():
        got.view(-1)[0] = fill
    if expected.numel() and expected.is_floating_point():
        expected.view(-1)[-1] = -math.inf
    for tol in (0.0, 1e-5):
        for sentence in explain(got, expected, tol, (expected, got, torch.tensor(3), torch.zeros(2, 2).bool())):
            assert isinstance(sentence, str)
    explain(got, torch.zeros(2, 3), 1e-5)


@pytest.mark.parametrize("shape", [(2, 3), (2, 4), (3, 2), (1, 3), (3,)])
def test_tensors_without_values_are_not_explained(shape):
    for got, expected in ((torch.empty(shape, device="meta"), torch.zeros(2, 3)), (torch.ones(shape), torch.empty(2, 3, device="meta"))):
        assert explain(got, expected, 1e-5) == []
