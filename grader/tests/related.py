"""Tensors to compare, and what `grader.verdict.relations` says about two of them."""

from __future__ import annotations

import math

import torch
from grader.verdict.relations import explain
from hypothesis import strategies as st
from torch import Tensor

TOL = 1e-5
LOWER = torch.ones(5, 5, dtype=torch.bool).tril()


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def said(got: Tensor, expected: Tensor, *inputs: Tensor, tol: float = TOL) -> str:
    sentences = explain(got, expected, tol, inputs)
    assert len(sentences) <= 2
    for sentence in sentences:
        assert sentence[0].isupper() or sentence[0].isdigit()
        assert sentence.endswith(".")
    return " ".join(sentences)


shapes = st.lists(st.integers(2, 5), min_size=2, max_size=4).map(tuple).filter(lambda shape: math.prod(shape) >= 6)
seeds = st.integers(0, 999)
