import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

logits = st.integers(1, 3).flatmap(
    lambda width: st.lists(st.lists(st.sampled_from([-2.0, 0.0, 0.5, 1.0, 3.0, -math.inf]), min_size=width + 2, max_size=width + 2), min_size=1, max_size=4)
)


def expected(row, k):
    kth = sorted(row, reverse=True)[min(k, len(row)) - 1]
    return [one if one >= kth else -math.inf for one in row]


@given(logits, st.integers(1, 7), st.sampled_from([torch.float32, torch.float64]))
def test_the_k_greatest_stay_with_all_ties(learner, rows, k, dtype):
    x = torch.tensor(rows, dtype=dtype)
    before = x.clone()
    y = learner.top_k_filter(x, k)
    assert y.dtype == dtype and y.tolist() == [expected(row, k) for row in rows]
    assert torch.equal(x, before)
    assert learner.top_k_filter(x[0], k).tolist() == expected(rows[0], k)
    assert learner.top_k_filter(x[None], k).tolist() == [y.tolist()]
    assert torch.equal(learner.top_k_filter(x.T.contiguous().T, k), y)


@pytest.mark.parametrize("k", [0, -1])
def test_at_least_one_token_stays(learner, k):
    with pytest.raises(ValueError, match="k"):
        learner.top_k_filter(torch.ones(3), k)


def test_float64_is_compared_in_float64(learner):
    x = torch.tensor([1.0, 1.0 + 1e-12, 0.0], dtype=torch.float64)
    assert learner.top_k_filter(x, 1).tolist() == [-math.inf, 1.0 + 1e-12, -math.inf]


def test_views_and_devices(learner):
    x = torch.randn(2, 5, 3).transpose(1, 2)
    y = torch.tensor([[expected(row, 2) for row in part] for part in x.tolist()])
    with torch.device("meta"):
        assert torch.equal(learner.top_k_filter(x, 2), y)
