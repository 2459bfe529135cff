import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close


def numbers(shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(st.sampled_from([(4,), (1, 3), (3, 1), (3, 3), (2, 5, 4), (1, 1, 2)]), st.integers(0, 99), st.data())
def test_it_is_the_gradient_of_softmax(learner, shape, seed, data):
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    x, g = numbers(shape, seed).requires_grad_(), numbers(shape, seed + 1)
    weights = torch.softmax(x, dim)
    (wanted,) = torch.autograd.grad((weights * g).sum(), x)
    before = g.clone(), weights.detach().clone()
    assert_close(learner.softmax_backward(weights.detach(), g, dim), wanted, rtol=1e-9, atol=1e-9)
    if dim in (-1, len(shape) - 1):
        assert_close(learner.softmax_backward(weights.detach(), g), wanted)
    assert torch.equal(g, before[0]) and torch.equal(weights, before[1])


def test_weights_of_zero(learner):
    weights = torch.tensor([[0.0, 0.0, 0.0], [0.0, 0.25, 0.75]])
    d = learner.softmax_backward(weights, torch.tensor([[1.0, 2.0, 3.0], [9.0, 1.0, 2.0]]))
    assert_close(d, torch.tensor([[0.0, 0.0, 0.0], [0.0, -0.1875, 0.1875]]))


def test_half_precision_and_views(learner):
    half = torch.tensor([[0.25, 0.75]], dtype=torch.float16)
    assert learner.softmax_backward(half, half).dtype == torch.float16
    weights, g = torch.softmax(numbers((3, 2, 4), 0), 1).transpose(0, 2), numbers((3, 2, 4), 1).transpose(0, 2)
    mean = (weights * g).sum(1, keepdim=True)
    assert_close(learner.softmax_backward(weights, g, 1), weights * (g - mean))
