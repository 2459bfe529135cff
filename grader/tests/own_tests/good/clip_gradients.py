import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close


def parameters(lengths, seed, scale, dtype=torch.float64):
    source, made = torch.Generator().manual_seed(seed), []
    for length in lengths:
        parameter = torch.nn.Parameter(torch.ones(2, length, dtype=dtype))
        parameter.grad = torch.randn(length, 2, generator=source, dtype=torch.float64).mul(scale).to(dtype).T
        made.append(parameter)
    return made


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 99), st.sampled_from([0.01, 1.0, 50.0]), st.sampled_from([0.5, 1.0, 3.0]))
def test_all_gradients_get_one_factor(learner, lengths, seed, scale, most):
    made = parameters(lengths, seed, scale)
    gone = torch.nn.Parameter(torch.ones(2))
    made[-1].requires_grad_(False)  # frozen, and it still has a gradient
    before, kept = [one.grad.clone() for one in made], [one.grad for one in made]
    norm = math.sqrt(sum(float(one.square().sum()) for one in before))
    found = learner.clip_gradients((one for one in [gone, *made]), most)
    assert isinstance(found, float) and found == pytest.approx(norm, rel=1e-12)
    factor = most / norm if norm > most else 1.0
    for one, old, held in zip(made, before, kept):
        assert_close(one.grad, old * factor, rtol=1e-5, atol=1e-9)
        assert one.grad.data_ptr() == held.data_ptr() and torch.equal(held, one.grad)
        assert torch.equal(one, torch.ones_like(one))


def test_without_gradients_the_norm_is_zero(learner):
    found = learner.clip_gradients([torch.nn.Parameter(torch.ones(2))], 1.0)
    assert isinstance(found, float) and found == 0.0
    zero = torch.nn.Parameter(torch.ones(2))
    zero.grad = torch.zeros(2)
    assert learner.clip_gradients([zero], 1.0) == 0.0 and (zero.grad == 0).all()
