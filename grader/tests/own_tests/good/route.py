import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close


def logits(shape, seed, scale=2.0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).mul(scale).to(dtype)


def expected(x, k):
    """The same, with the softmax of the chosen logits alone."""
    best, experts = x.sort(-1, descending=True)
    return torch.softmax(best[..., :k], -1), experts[..., :k]


@given(
    st.sampled_from([(4,), (3, 5), (2, 3, 4), (4, 4), (2, 1)]), st.integers(0, 99), st.sampled_from([0.2, 2.0, 20.0]),
    st.sampled_from([torch.float32, torch.float64]), st.data(),
)  # fmt: skip
def test_the_best_experts_come_first(learner, shape, seed, scale, dtype, data):
    x, k = logits(shape, seed, scale, dtype), data.draw(st.integers(1, shape[-1]))
    before = x.clone()
    weights, experts = learner.route(x, k)
    assert_close(weights, expected(x, k)[0], atol=1e-5, rtol=1e-4)
    assert torch.equal(experts, expected(x, k)[1])
    assert torch.equal(x, before)


def test_large_logits_do_not_overflow(learner):
    x = torch.tensor([[1000.0, 999.0, 0.0], [-1000.0, -1003.0, -999.0]])
    assert_close(learner.route(x, 2), expected(x, 2))


def test_unlikely_experts_keep_their_order(learner):
    x = torch.tensor([20.0, -3.0, -1.0, -2.0, -6.0])
    assert learner.route(x, 5)[1].tolist() == [0, 2, 3, 1, 4]


@pytest.mark.parametrize("k", [0, 4])
def test_a_wrong_top_k_is_refused(learner, k):
    with pytest.raises(ValueError, match=str(k)):
        learner.route(torch.ones(2, 3), k)


@given(st.integers(0, 99))
def test_the_router_learns(learner, seed):
    x, g = logits((3, 4), seed).requires_grad_(), logits((3, 2), seed + 1)
    found = torch.autograd.grad((learner.route(x, 2)[0] * g).sum(), x)
    assert_close(found, torch.autograd.grad((expected(x, 2)[0] * g).sum(), x), atol=1e-5, rtol=1e-4)


def test_half_precision_and_views(learner):
    half = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float16)
    assert learner.route(half, 2)[0].dtype == torch.float16
    x = logits((2, 5, 3), 0).transpose(1, 2)
    assert_close(learner.route(x, 2), expected(x, 2), atol=1e-5, rtol=1e-4)
    assert_close(learner.route(x, 2), learner.route(x, 2))
