import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close


def numbers(shape, seed, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def expected(x, weight, eps):
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight


def layer(learner, width, seed, eps=1e-6):
    made = learner.RMSNorm(width, eps).double()
    made.weight.data = numbers((width,), seed) + 2
    return made


@given(st.sampled_from([(4,), (2, 4), (3, 2, 4), (2, 1, 3, 5)]), st.integers(0, 99), st.sampled_from([1e-6, 0.3]), st.sampled_from([1e-3, 1.0, 50.0]))
def test_it_divides_by_the_root_mean_square(learner, shape, seed, eps, scale):
    norm, x = layer(learner, shape[-1], seed, eps), (numbers(shape, seed + 1) + 0.5) * scale
    before = x.clone()
    assert_close(norm(x), expected(x, norm.weight, eps))
    assert torch.equal(x, before)


@given(st.integers(0, 99))
def test_the_gradient_is_right(learner, seed):
    norm, x, g = layer(learner, 4, seed), numbers((3, 4), seed + 1).requires_grad_(), numbers((3, 4), seed + 2)
    weight = norm.weight
    found = torch.autograd.grad((norm(x) * g).sum(), (x, weight))
    assert_close(found, torch.autograd.grad((expected(x, weight, 1e-6) * g).sum(), (x, weight)))


def test_a_new_layer(learner):
    norm = learner.RMSNorm(4)
    assert [name for name, _ in norm.named_parameters()] == list(norm.state_dict()) == ["weight"]
    assert torch.equal(norm.weight, torch.ones(4))
    tiny = torch.full((4,), 1e-3)
    assert_close(norm(tiny), expected(tiny, 1.0, 1e-6))


def test_zeros_give_zeros(learner):
    x = torch.zeros(2, 4, requires_grad=True)
    y = learner.RMSNorm(4)(x)
    y.sum().backward()
    assert (y == 0).all() and x.grad.isfinite().all()
    near = torch.full((4,), 1e-6)
    assert_close(learner.RMSNorm(4)(near), expected(near, 1.0, 1e-6))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(learner, dtype):
    x = (numbers((3, 8), 0) * 300).to(dtype)
    for norm in (learner.RMSNorm(8), learner.RMSNorm(8).to(dtype)):
        y = norm(x)
        assert y.dtype == dtype
        assert_close(y, expected(x.float(), 1.0, 1e-6).to(dtype))


def test_views_and_devices(learner):
    norm, x = layer(learner, 4, 0), numbers((3, 4, 2), 1).transpose(1, 2)
    y = expected(x, norm.weight, 1e-6)
    with torch.device("meta"):
        assert_close(copy.deepcopy(norm)(x), y)
