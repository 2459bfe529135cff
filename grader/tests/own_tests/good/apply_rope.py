import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close


def numbers(shape, seed, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def expected(x, positions, base=10000.0):
    """Each pair as a complex number, which is multiplied by e^(i angle)."""
    width = x.size(-1)
    angles = positions[:, None].double() * base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    pairs = torch.view_as_complex(x.double().contiguous().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2).to(x.dtype)


@given(
    st.sampled_from([(3, 2), (4, 8), (2, 3, 6), (2, 2, 4, 4), (1, 2, 2, 3, 4)]), st.integers(0, 99),
    st.sampled_from([10000.0, 100.0]), st.sampled_from([0, 5]), st.data(),
)  # fmt: skip
def test_pairs_turn_by_their_angles(learner, shape, seed, base, first, data):
    x, count = numbers(shape, seed), shape[-2]
    positions = torch.tensor(data.draw(st.permutations(range(first, first + 2 * count))))[:count]
    before = x.clone()
    assert_close(learner.apply_rope(x, positions, base), expected(x, positions, base), atol=1e-5, rtol=1e-5)
    assert torch.equal(x, before)
    if base == 10000.0:
        assert torch.equal(learner.apply_rope(x, positions), learner.apply_rope(x, positions, base))


def test_position_0_keeps_every_digit(learner):
    x = numbers((1, 4), 0)
    assert_close(learner.apply_rope(x, torch.tensor([0])), x, atol=1e-14, rtol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_angles_are_precise(learner, dtype):
    x, positions = numbers((3, 8), 0, dtype), torch.tensor([257, 1001, 5000])
    assert_close(learner.apply_rope(x, positions), expected(x, positions), atol=0.02 if dtype != torch.float32 else 5e-3, rtol=0.02)


def test_an_odd_width_is_refused(learner):
    with pytest.raises(ValueError, match="5"):
        learner.apply_rope(numbers((2, 5), 0), torch.arange(2))


def test_gradients_views_and_modes(learner):
    positions = torch.arange(3)
    with torch.inference_mode():
        learner.apply_rope(numbers((2, 2, 3, 4), 0), positions)
    x = numbers((2, 3, 2, 4), 0).requires_grad_()
    y = learner.apply_rope(x.transpose(1, 2), positions)
    g = numbers(y.shape, 1)
    (y * g).sum().backward()
    assert_close(x.grad.transpose(1, 2), expected(g, -positions), atol=1e-5, rtol=1e-5)
    assert_close(y, expected(x.transpose(1, 2), positions), atol=1e-5, rtol=1e-5)


def test_new_tensors_are_where_x_is(learner):
    x, positions = numbers((3, 4), 0), torch.arange(3)
    with torch.device("meta"):
        y = learner.apply_rope(x, positions)
    assert_close(y, expected(x, positions), atol=1e-5, rtol=1e-5)
