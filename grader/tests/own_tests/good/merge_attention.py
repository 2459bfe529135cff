import math

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close


def numbers(shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def attend(scores, values):
    """The output and lse of these keys, for each query; of no keys, too."""
    lse = torch.logsumexp(scores, -1)
    weights = torch.exp(scores - torch.where(lse == -math.inf, 0.0, lse)[..., None])
    return weights @ values, lse


@given(
    st.sampled_from([(3,), (2, 4), (1, 2, 3), (2, 2, 1, 3)]), st.integers(0, 99), st.sampled_from([1.0, 30.0, 10_000.0]),
    st.sampled_from([0.0, 10_000.0, -10_000.0]), st.sampled_from([torch.float32, torch.float64]), st.booleans(),
)  # fmt: skip
def test_two_groups_are_like_all_their_keys(learner, shape, seed, scale, shift, dtype, holes):
    a, b = numbers((*shape, 3), seed) * scale + shift, numbers((*shape, 2), seed + 1) * scale + shift
    if holes:
        a[..., 0, :] = -math.inf
        b[..., -1, :] = -math.inf
        a[..., -1, :] = -math.inf if seed % 2 else 0
    va, vb = numbers((*shape[:-1], 3, 5), seed + 2), numbers((*shape[:-1], 2, 5), seed + 3)
    groups = [part.to(dtype) for part in (*attend(a, va), *attend(b, vb))]
    before = [part.clone() for part in groups]
    output, lse = learner.merge_attention(*groups)
    wanted = [part.to(dtype) for part in attend(torch.cat([a, b], -1), torch.cat([va, vb], -2))]
    exact = dict(rtol=1e-9, atol=1e-9) if dtype == torch.float64 else dict(rtol=1e-3, atol=3e-3)
    assert_close(output, wanted[0], **exact)
    assert_close(lse, wanted[1], **exact)
    assert all(torch.equal(*pair) for pair in zip(groups, before))


def test_empty_groups_change_nothing(learner):
    empty, nothing = torch.zeros(2, 3), torch.full((2,), -math.inf)
    full, lse = torch.ones(2, 3), torch.tensor([0.5, -math.inf])
    full[1] = 0
    for found in (learner.merge_attention(full, lse, empty, nothing), learner.merge_attention(empty, nothing, full, lse)):
        assert_close(found, (full, lse))
    assert_close(learner.merge_attention(empty, nothing, empty, nothing), (empty, nothing))


def test_half_precision_views_and_devices(learner):
    half = [torch.ones(2, 3, dtype=torch.float16), torch.ones(2, dtype=torch.float16)]
    assert [part.dtype for part in learner.merge_attention(*half, *half)] == [torch.float16] * 2
    a, lse = numbers((2, 3, 4, 5), 0).transpose(0, 2), numbers((2, 3, 4), 1).transpose(0, 2)
    wanted = learner.merge_attention(a.contiguous(), lse.contiguous(), a.contiguous() + 1, lse.contiguous())
    with torch.device("meta"):
        assert_close(learner.merge_attention(a, lse, a + 1, lse), wanted)
