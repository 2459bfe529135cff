"""Chapter 21, fourth part: causal flash attention, and how fast a computation can be."""

from __future__ import annotations

import math

import torch
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, same
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pytest_check import check
from simulated_gpus import run, unwritten, watch
from strategies import at, distinct, seeds, tensor

few = settings(max_examples=2)
few_watched = settings(max_examples=1)
blocks = st.sampled_from([(4, 2, 8), (2, 4, 8), (8, 2, 4), (2, 8, 4)])  # BQ, BK, D
lengths = distinct("heads", "T", heads=(2, 3), T=(5, 9))


# ---- attention_kernel


def attention(q, k, v, scale):
    """Causal attention and its log-sum-exp, computed in float64."""
    q, k, v = q.double(), k.double(), v.double()
    scores = (q @ k.mT * scale).masked_fill(torch.ones(q.size(1), q.size(1)).triu(1).bool(), -math.inf)
    return torch.softmax(scores, 2) @ v, torch.logsumexp(scores, 2)


def attend(with_memory, side, q, k, v, scale, seed, BQ, BK):
    """What `run` or `watch` gives for attention_kernel."""
    heads, T, D = q.shape
    out, lse = unwritten(heads, T, D, dtype=q.dtype), unwritten(heads, T, dtype=q.dtype)
    return with_memory(side, "attention_kernel", (-(-T // BQ), heads), q, k, v, out, lse, T, scale, D, seed=seed, BQ=BQ, BK=BK)


def drawn(seed, heads, T, D, scale=1.0, dtype=torch.float32):
    return [tensor(seed + i, heads, T, D, scale=scale, dtype=dtype) for i in range(3)]


@exercise("attention_kernel", weight=3)
@few
@given(n=lengths, sizes=blocks, seed=seeds)
@example(n=at(heads=2, T=9), sizes=(4, 2, 8), seed=0)
@example(n=at(heads=3, T=7), sizes=(2, 4, 8), seed=1)
def test_each_query_gets_the_mean_of_the_values_up_to_it(learner, n, sizes, seed):
    """out is softmax(scale * query · key) times the values up to the query's position, in each head; q, k and v stay as they are."""
    BQ, BK, D = sizes
    q, k, v = drawn(seed, n.heads, n.T, D)
    *inputs, out, _ = attend(run, learner, q, k, v, 0.7, seed, BQ, BK)
    close(out, attention(q, k, v, 0.7)[0].float(), "the result in out")
    close(inputs, [q, k, v], "q, k and v after the launch")


@exercise("attention_kernel", weight=2)
@few
@given(n=lengths, sizes=blocks, seed=seeds)
@example(n=at(heads=2, T=7), sizes=(2, 8, 4), seed=0)
def test_lse_is_the_logarithm_of_the_sum_of_exp(learner, n, sizes, seed):
    """lse is the logarithm of each query's sum of exp(score), with the maximum."""
    BQ, BK, D = sizes
    q, k, v = drawn(seed, n.heads, n.T, D)
    *_, lse = attend(run, learner, q, k, v, 0.7, seed, BQ, BK)
    close(lse, attention(q, k, v, 0.7)[1].float(), "the result in lse")


@exercise("attention_kernel", weight=3)
@few_watched
@given(sizes=st.sampled_from([(4, 2), (4, 4), (2, 2)]), seed=seeds)
@example(sizes=(4, 2), seed=0)
def test_queries_are_read_once_and_no_keys_above_the_diagonal(learner, sizes, seed):
    """A program reads its queries once, the keys and values up to its last query once, and writes its numbers of out and lse once. Blocks of keys above the diagonal are not read."""
    (BQ, BK), heads, T, D = sizes, 2, 7, 4
    q, k, v = drawn(seed, heads, T, D)
    (*_, out, lse), traffic = attend(watch, learner, q, k, v, 0.7, seed, BQ, BK)
    with check:
        close([out, lse], [part.float() for part in attention(q, k, v, 0.7)], "the results in out and lse")
    keys = sum(min(first + BQ, T) for first in range(0, T, BQ))
    with check:
        same(traffic.bytes_read, heads * (T + 2 * keys) * D * 4, "the number of bytes that all programs read")
    with check:
        same(traffic.bytes_written, heads * T * (D + 1) * 4, "the number of bytes that all programs write")


@exercise("attention_kernel")
@few_watched
@given(seed=seeds)
def test_of_a_block_of_keys_that_is_half_needed_no_other_is_read(learner, seed):
    """Where BK is larger than BQ, a program reads at most the block of keys that has its last query, and none after it."""
    heads, T, D, BQ, BK = 2, 9, 2, 2, 4
    q, k, v = drawn(seed, heads, T, D)
    (*_, out, lse), traffic = attend(watch, learner, q, k, v, 1.3, seed, BQ, BK)
    ends = [min(first + BQ, T) for first in range(0, T, BQ)]
    least = heads * (T + 2 * sum(ends)) * D * 4
    most = heads * (T + 2 * sum(min(-(-end // BK) * BK, T) for end in ends)) * D * 4
    with check:
        close([out, lse], [part.float() for part in attention(q, k, v, 1.3)], "the results in out and lse")
    holds(least <= traffic.bytes_read <= most, f"all programs together should read {least} to {most} bytes, and they read {traffic.bytes_read}")


@exercise("attention_kernel")
@few
@given(seed=seeds)
def test_a_sequence_may_be_shorter_than_a_block(learner, seed):
    """T may be smaller than BQ and BK, and 1."""
    q, k, v = drawn(seed, 2, 3, 4)
    *_, out, lse = attend(run, learner, q, k, v, 0.7, seed, 8, 16)
    *_, first, own = attend(run, learner, *(t[:, :1].contiguous() for t in (q, k, v)), 0.7, seed, 4, 2)
    close([out, lse], [part.float() for part in attention(q, k, v, 0.7)], "the results in out and lse")
    close(first, v[:, :1], "the result in out for a single query and key")
    close(own, (q * k).sum(2)[:, :1] * 0.7, "the result in lse for a single query and key")


@exercise("attention_kernel")
@few
@given(sizes=blocks, seed=seeds)
def test_scores_may_be_large(learner, sizes, seed):
    """Scores of several hundred, positive or negative, give the right weights and sums without inf or nan."""
    BQ, BK, D = sizes
    q, k, v = drawn(seed, 2, 7, D)
    k[0, 0] = -q[0, 0].sign() * (1 + k[0, 0].abs())  # a negative score, of a query that has no other
    k[1, 0] = q[1, 0].sign() * (1 + k[1, 0].abs())
    *_, out, lse = attend(run, learner, q, k, v, 300.0, seed, BQ, BK)
    right, sums = attention(q, k, v, 300.0)
    close(out, right.float(), "the result in out", tol=1e-3)
    close(lse, sums.float(), "the result in lse")


@exercise("attention_kernel")
@few
@given(sizes=blocks, seed=seeds)
def test_what_lies_behind_the_heads_is_not_used(learner, sizes, seed):
    """What lies in memory behind the last head changes nothing, and is not written."""
    BQ, BK, D = sizes
    q, k, v = drawn(seed, 2, 5, D)
    longer = [torch.cat([t, unwritten(1, 5, D)]) for t in (q, k, v)]
    *_, out, lse = run(
        learner, "attention_kernel", (-(-5 // BQ), 2), *longer, unwritten(3, 5, D), unwritten(3, 5), 5, 0.7, D, seed=seed, BQ=BQ, BK=BK
    )
    right, sums = attention(q, k, v, 0.7)
    close(out, torch.cat([right.float(), unwritten(1, 5, D)]), "the memory from out on")
    close(lse, torch.cat([sums.float(), unwritten(1, 5)]), "the memory from lse on")


@exercise("attention_kernel", weight=2)
@few
@given(seed=seeds)
def test_float16_is_computed_in_float32(learner, seed):
    """Where all tensors are float16, scores, weights and sums are float32: weights that hardly differ are told apart, and a query · key may be larger than float16 can hold."""
    q, k, v = drawn(seed, 2, 9, 4, scale=0.05, dtype=torch.float16)
    v[:, 0], v[:, 1::2], v[:, 2::2] = 0, 100, -100  # at every second query, values of equal weights have the mean 0
    *_, out, lse = attend(run, learner, q, k, v, 0.5, seed, 4, 2)
    right, sums = attention(q, k, v, 0.5)
    q2, k2, v2 = [*drawn(seed + 3, 2, 7, 4, scale=200.0, dtype=torch.float16)[:2], tensor(seed + 5, 2, 7, 4, dtype=torch.float16)]
    *_, out2, lse2 = attend(run, learner, q2, k2, v2, 2e-5, seed, 2, 4)
    right2, sums2 = attention(q2, k2, v2, 2e-5)
    close(out[:, 2::2], right[:, 2::2].half(), "the result in out at every second query, with weights that hardly differ,")
    close(lse, sums.half(), "the result in lse")
    close(out2, right2.half(), "the result in out for large queries and keys")
    close(lse2, sums2.half(), "the result in lse for large queries and keys")


# ---- roofline


@exercise("roofline", weight=2)
@few
@given(seed=seeds)
def test_the_longer_time_counts(learner, seed):
    """The time is that of the slower of the two, in seconds, and its name says which it is."""
    more = 1 + seed / 10000
    few_bytes, many_bytes = learner.roofline(4e12 * more, 1e9, 2e12, 1e9), learner.roofline(4e12, 5e9 * more, 2e12, 1e9)
    slow_memory, slow_processors = learner.roofline(4e12, 1e9, 2e12, 2e8 / more), learner.roofline(4e12, 1e9, 1e12 / more, 1e9)
    close(few_bytes, (2.0 * more, "compute"), "the result for few bytes")
    close(many_bytes, (5.0 * more, "memory"), "the result for many bytes")
    close(slow_memory, (5.0 * more, "memory"), "the result for a slow memory")
    close(slow_processors, (4.0 * more, "compute"), "the result for slow processors")


@exercise("roofline")
def test_there_may_be_no_operations_or_no_bytes(learner):
    """A computation may have no operations, or move no bytes."""
    no_bytes, no_flops = learner.roofline(300.0, 0.0, 100.0, 20.0), learner.roofline(0.0, 60.0, 100.0, 20.0)
    close(no_bytes, (3.0, "compute"), "the result without bytes")
    close(no_flops, (3.0, "memory"), "the result without operations")


@exercise("roofline")
def test_equal_times_are_compute(learner):
    """If both take equally long, it is "compute"."""
    equal, a_little_more = learner.roofline(300.0, 60.0, 100.0, 20.0), learner.roofline(300.0, 61.0, 100.0, 20.0)
    close(equal, (3.0, "compute"), "the result where both take 3 seconds")
    close(a_little_more, (3.05, "memory"), "the result where memory takes a little longer")


@exercise("roofline")
@few
@given(n=distinct("M", "N", "K", M=(2, 9), N=(10, 20), K=(300, 500)))
def test_a_product_with_one_row_waits_for_memory(learner, n):
    """A float16 matrix product with one row waits for memory, and one with many rows for the processors, on the same computer."""
    peak, bandwidth = 1e7, 1e5
    few_flops, few_bytes = 2 * n.N * n.K, 2 * (n.K + n.N * n.K + n.N)
    M, N, K = 100 * n.M, 100 * n.N, n.K
    many_flops, many_bytes = 2 * M * N * K, 2 * (M * K + N * K + M * N)
    small, large = learner.roofline(few_flops, few_bytes, peak, bandwidth), learner.roofline(many_flops, many_bytes, peak, bandwidth)
    close(small, (few_bytes / bandwidth, "memory"), "the result for a product with one row")
    close(large, (many_flops / peak, "compute"), "the result for a product with many rows")
