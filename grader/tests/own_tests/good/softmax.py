import math

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

shapes = st.sampled_from([(4,), (1, 3), (3, 1), (2, 5), (3, 2, 4)])


def scores(shape, seed, scale=3.0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).mul(scale).to(dtype)


@given(shapes, st.integers(0, 99), st.sampled_from([0.1, 3.0, 300.0, 30_000.0]), st.sampled_from([torch.float32, torch.float64]), st.data())
def test_weights_are_those_of_torch(learner, shape, seed, scale, dtype, data):
    x, dim = scores(shape, seed, scale, dtype), data.draw(st.integers(-len(shape), len(shape) - 1))
    before = x.clone()
    assert_close(learner.softmax(x, dim), torch.softmax(x, dim))  # also the dtype and the shape
    assert torch.equal(x, before)


@given(shapes, st.integers(0, 99), st.sampled_from([0.0, 60.0, 10_000.0, -10_000.0]))
def test_a_number_added_to_all_scores_changes_nothing(learner, shape, seed, shift):
    x = scores(shape, seed)
    assert_close(learner.softmax(x + shift), learner.softmax(x), atol=1e-10, rtol=1e-8)


def test_rows_far_apart_do_not_disturb_each_other(learner):
    x = torch.tensor([[0.0, 1.0], [-20_000.0, -20_001.0]])
    assert_close(learner.softmax(x), torch.softmax(x, -1))
    assert_close(learner.softmax(x.T, 0), torch.softmax(x.T, 0))


@given(st.integers(0, 99))
def test_minus_infinity_gets_no_weight(learner, seed):
    x = scores((3, 4), seed)
    x[0] = x[1, 2] = -math.inf
    x.requires_grad_()
    w = learner.softmax(x)
    assert (w[0] == 0).all() and w[1, 2] == 0
    assert_close(w[1:], torch.softmax(x[1:], -1))
    (w * scores((3, 4), seed + 1)).sum().backward()
    assert x.grad.isfinite().all() and x.grad[1:].abs().sum() > 0


@given(st.integers(0, 99))
def test_the_gradient_is_that_of_torch(learner, seed):
    x, g = scores((2, 3), seed).requires_grad_(), scores((2, 3), seed + 1)
    assert_close(torch.autograd.grad((learner.softmax(x) * g).sum(), x), torch.autograd.grad((torch.softmax(x, -1) * g).sum(), x))


def test_transposed_scores_work(learner):
    x = scores((2, 3, 4), 0).transpose(1, 2)
    for dim in range(3):
        assert_close(learner.softmax(x, dim), torch.softmax(x, dim))


def test_half_precision_stays(learner):
    assert learner.softmax(torch.ones(3, dtype=torch.float16)).dtype == torch.float16


def test_new_tensors_are_where_the_scores_are(learner):
    x = torch.tensor([[1.0, 2.0], [-math.inf, -math.inf]])
    with torch.device("meta"):
        assert learner.softmax(x).device == x.device


def test_the_sum_is_exact(learner):
    x = scores((4, 3), 0)
    assert_close(learner.softmax(x).sum(-1), torch.ones(4, dtype=torch.float64), atol=2e-9, rtol=0)
