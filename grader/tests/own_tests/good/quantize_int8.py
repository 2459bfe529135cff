import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close


def matrix(shape, seed, scale=1.0, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).mul(scale).to(dtype)


@given(
    st.sampled_from([(2, 5), (4, 3), (3, 3), (1, 1), (5, 1)]), st.integers(0, 99),
    st.sampled_from([1e-9, 0.01, 1.0, 1000.0]), st.sampled_from([torch.float32, torch.float64]),
)  # fmt: skip
def test_the_row_comes_back_within_half_a_step(learner, shape, seed, scale, dtype):
    weight = matrix(shape, seed, scale, dtype)
    weight[0] *= 100  # rows of different sizes
    codes, step = learner.quantize_int8(weight)
    assert codes.dtype == torch.int8 and codes.shape == shape and step.dtype == dtype
    assert_close(step, weight.abs().amax(1) / 127)
    assert ((codes.double() * step.double()[:, None] - weight.double()).abs() <= 0.5001 * step.double()[:, None]).all()
    assert codes.abs().amax(1).eq(127).all() and codes.min() >= -127
    assert torch.equal(learner.quantize_int8(-weight)[0], -codes)


def test_a_row_of_zeros(learner):
    weight = torch.tensor([[0.0, 0.0], [1.0, -2.0]])
    codes, scale = learner.quantize_int8(weight)
    assert codes.tolist() == [[0, 0], [64, -127]] and scale.isfinite().all()


def test_views_and_devices(learner):
    weight = matrix((3, 5), 0).T
    assert_close(learner.quantize_int8(weight), learner.quantize_int8(weight.contiguous()))
    with torch.device("meta"):  # a new tensor without device= has no numbers
        assert learner.quantize_int8(weight)[0].shape == (5, 3)
