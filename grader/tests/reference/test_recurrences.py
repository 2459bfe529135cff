"""Chapter 22's reference: its forms against each other, and against definitions that enumerate all pairs or paths."""

from __future__ import annotations

import math

import pytest
import torch
from agreement import agree, normal, same

B, H, D, D_V = 2, 3, 4, 5


def heads(T: int):
    return normal(B, H, T, D), normal(B, H, T, D), normal(B, H, T, D_V)


def log_decays(*shape: int):
    return (-torch.rand(*shape, dtype=torch.float64) * 2).requires_grad_()


@pytest.mark.parametrize("T", [1, 2, 9])
def test_linear_attention_averages_values_by_products_of_features(ours, T):
    q, k, v = heads(T)
    phi = {x: torch.where(x > 0, x + 1, x.exp()) for x in (q, k)}
    rows = []
    for t in range(T):
        weights = [(phi[q][:, :, t] * phi[k][:, :, s]).sum(-1, keepdim=True) for s in range(t + 1)]
        rows.append(sum(weight * v[:, :, s] for s, weight in enumerate(weights)) / sum(weights))
    agree(ours.linear_attention(q, k, v), torch.stack(rows, dim=2), q, k, v)


@pytest.mark.parametrize("T", [1, 2, 9])
def test_steps_of_linear_attention_are_its_parallel_form(ours, T):
    q, k, v = heads(T)
    state, rows = None, []
    for t in range(T):
        output, state = ours.linear_attention_step(q[:, :, t], k[:, :, t], v[:, :, t], state)
        rows.append(output)
    agree(torch.stack(rows, dim=2), ours.linear_attention(q, k, v), q, k, v)


def test_segment_sums_add_up_each_segment(ours):
    log_decay = log_decays(3, 8)
    log_decay.data[1, 3] = -math.inf
    sums = ours.segment_sums(log_decay)
    for t in range(8):
        for s in range(8):
            expected = log_decay[:, s + 1 : t + 1].sum(-1) if s <= t else torch.full((3,), -math.inf).double()
            assert torch.equal(sums[:, t, s].isinf(), expected.isinf()) and torch.allclose(sums[:, t, s], expected)


def test_segment_sums_are_precise_in_float32_late_in_a_long_text(ours):
    """The plain difference of cumulative sums loses more than half of its digits there."""
    log_decay = -torch.rand(4096)
    right = log_decay.double()[1:]
    wrong = log_decay.cumsum(-1).diff()
    assert ((ours.segment_sums(log_decay).diagonal(-1) - right) / right).abs().max() < 1e-6
    assert ((wrong - right) / right).abs()[-1000:].max() > 1e-3


def pair_by_pair(q, k, v, log_decay):
    """Each output as a sum over all earlier pairs, each with its own product of factors."""
    rows = []
    for t in range(q.size(2)):
        row = 0
        for s in range(t + 1):
            factor = log_decay[:, :, s + 1 : t + 1].exp().prod(-1)
            row = row + (factor * (q[:, :, t] * k[:, :, s]).sum(-1))[..., None] * v[:, :, s]
        rows.append(row)
    return torch.stack(rows, dim=2)


@pytest.mark.parametrize("T", [1, 2, 9])
def test_decayed_attention_adds_up_all_pairs(ours, T):
    inputs = *heads(T), log_decays(B, H, T)
    agree(ours.decayed_attention(*inputs), pair_by_pair(*inputs), *inputs)


@pytest.mark.parametrize("chunk", [1, 2, 4, 9, 20])
def test_chunks_are_the_parallel_form(ours, chunk):
    inputs = *heads(9), log_decays(B, H, 9)
    output, state = ours.decayed_attention_chunked(*inputs, chunk)
    agree(output, ours.decayed_attention(*inputs), *inputs)
    _, k, v, log_decay = inputs
    to_end = ours.segment_sums(log_decay)[:, :, -1].exp()
    same(state, torch.einsum("bhs,bhsd,bhsv->bhdv", to_end, k, v))


def test_a_chunked_state_is_a_pair_before_the_text(ours):
    """A state of one pair (k, v) is what one more position at the beginning leaves."""
    inputs = *heads(7), log_decays(B, H, 7)
    whole, last = ours.decayed_attention_chunked(*inputs, 3)
    _, first = ours.decayed_attention_chunked(*(x[:, :, :1] for x in inputs), 3)
    rest, state = ours.decayed_attention_chunked(*(x[:, :, 1:] for x in inputs), 3, first)
    agree(rest, whole[:, :, 1:], *inputs)
    same(state, last)


@pytest.mark.parametrize("T", [1, 2, 3, 8, 13])
def test_a_scan_adds_up_all_paths(ours, T):
    """x_t is the sum over all s of b_s times every later factor up to t."""
    a, b = normal(T, 3), normal(T, 3)
    rows = [sum(b[s] * a[s + 1 : t + 1].prod(0) for s in range(t + 1)) for t in range(T)]
    got = ours.doubling_scan(a, b)
    agree(got, torch.stack(rows), b) if T == 1 else agree(got, torch.stack(rows), a, b)
