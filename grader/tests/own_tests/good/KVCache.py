import contextlib

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

chunks = st.lists(st.sampled_from([1, 1, 2, 5, 40]), min_size=1, max_size=6)
modes = pytest.mark.parametrize("mode", [contextlib.nullcontext, torch.no_grad, torch.inference_mode])


def parts(lengths, seed, dtype=torch.float32):
    """Keys and values for chunks of these lengths: 2 rows, 3 heads, 4 features."""
    source = torch.Generator().manual_seed(seed)
    return [tuple(torch.randn(2, length, 3, 4, generator=source).to(dtype).transpose(1, 2) for _ in "kv") for length in lengths]


def fill(cache, chunks, before=()):
    """Append them; check each result, and that earlier results keep their values."""
    past, results = list(before), []
    for chunk in chunks:
        past.append(chunk)
        shape = chunk[0].shape
        results.append((cache.append(*chunk), [torch.cat(side, 2) for side in zip(*past)]))
        assert cache.length == sum(k.size(2) for k, _ in past) and chunk[0].shape == shape
        for found, wanted in results:
            assert len(found) == 2
            assert all(torch.equal(one, other) and one.dtype == other.dtype for one, other in zip(found, wanted))
    return past


@modes
@given(chunks, st.integers(0, 9), st.sampled_from([torch.float32, torch.float64, torch.bfloat16]))
def test_append_returns_all_positions(learner, mode, lengths, seed, dtype):
    with mode():
        first, second = learner.KVCache(), learner.KVCache()
        past = fill(first, parts(lengths, seed, dtype))
        fill(second, parts(lengths, seed + 1, dtype))
        fill(first, parts(lengths, seed + 2, dtype), past)


@modes
@given(chunks, chunks, st.integers(0, 9))
def test_a_branch_is_independent(learner, mode, lengths, more, seed):
    with mode():
        trunk = learner.KVCache()
        past = fill(trunk, parts(lengths, seed))
        branch = trunk.copy()
        assert branch.length == trunk.length
        ours, theirs = parts(more, seed + 1), parts(more, seed + 2)
        mine, other = list(past), list(past)
        for one, two in zip(ours, theirs):
            mine = fill(trunk, [one], mine)
            other = fill(branch, [two], other)
        fill(trunk, parts([1], 5), mine)
        fill(branch, parts([1], 6), other)


def test_an_empty_cache_can_be_copied(learner):
    cache = learner.KVCache()
    assert cache.length == 0
    fill(cache.copy(), parts([2, 3], 0))


def test_long_texts(learner):
    fill(learner.KVCache(), parts([3, 5000, 1], 0))
    fill(learner.KVCache(), parts([100] * 3 + [1] * 30, 0))
