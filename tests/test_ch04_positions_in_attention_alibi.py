"""Chapter 4, second part: ALiBi's slopes and biases."""

import math

import torch
from grader.runner.marks import exercise
from grader.verdict.comparing import close, shaped, sizes
from hypothesis import example, given, settings
from hypothesis import strategies as st
from memory_layouts import after_overwriting
from strategies import distinct

few = settings(max_examples=3)  # for tests that a mistake breaks at every example: more examples would only take time


# ---- alibi_slopes


def slopes(n_heads):
    """The definition: the nearest power of two from below, then every second slope of twice as many heads."""
    power = 1
    while 2 * power <= n_heads:
        power *= 2
    first = [2.0 ** (-8 * h / power) for h in range(1, power + 1)]
    second = [2.0 ** (-8 * h / (2 * power)) for h in range(1, 2 * power + 1)]
    return torch.tensor(first + second[0::2][: n_heads - power])


@exercise("alibi_slopes", weight=3)
@given(H=st.sampled_from([4, 8, 16, 32]))
def test_slopes_of_a_power_of_two(learner, H):
    """For H heads, a power of two, the slopes are 2^(-8/H), 2^(-16/H), ... down to 2^-8."""
    sizes(H=H)
    close(learner.alibi_slopes(H), slopes(H), "the slopes")


@exercise("alibi_slopes", weight=2)
@few
@given(H=st.sampled_from([1, 2]))
def test_slopes_of_one_and_two_heads(learner, H):
    """One head has the slope 2^-8; two have 2^-4 and 2^-8."""
    got = learner.alibi_slopes(2), learner.alibi_slopes(1)
    sizes(H=H)
    close(got[2 - H], slopes(H), "the slopes")
    close(got[0], slopes(2), "the slopes of two heads")


@exercise("alibi_slopes", weight=5)
@example(H=200)
@given(H=st.sampled_from([3, 5, 6, 7, 9, 12, 20, 24, 40]))
def test_slopes_of_any_other_number_of_heads(learner, H):
    """For other numbers: the slopes of the largest power of two below H, then the first, third, fifth, ... slope of the next power."""
    sizes(H=H)
    close(learner.alibi_slopes(H), slopes(H), "the slopes")


@exercise("alibi_slopes", weight=3)
@few
@given(H=st.sampled_from([12, 6, 48]))
def test_added_slopes_lie_between_the_others(learner, H):
    """The first slopes are those of the power of two itself; each added one is halfway, by ratio, to the previous slope."""
    power = 2 ** int(math.log2(H))
    got, base = learner.alibi_slopes(H), learner.alibi_slopes(power)
    sizes(H=H, power=power)
    shaped(got, (H,), "the slopes")
    close(got[:power], slopes(power), f"the first {power} of {H} slopes")
    close(base, slopes(power), f"the slopes of {power} heads")
    close(got[power:], base[: H - power] * 2.0 ** (4 / power), "the added slopes")


@exercise("alibi_slopes", weight=2)
@few
@given(H=st.sampled_from([8, 16, 4]))
def test_the_first_head_is_the_steepest(learner, H):
    """Each slope is 2^(-8/H) times the one before, the last is 2^-8, and all are float32."""
    sizes(H=H)
    got = shaped(learner.alibi_slopes(H), (H,), "the slopes", torch.float32)
    close(got[-1].item(), 2.0**-8, "the last slope")
    close(got[1:] / got[:-1], torch.full((H - 1,), 2.0 ** (-8 / H)), "each slope relative to the previous one")


@exercise("alibi_slopes")
@few
@given(H=st.sampled_from([6, 8, 12]))
def test_each_call_makes_slopes_of_its_own(learner, H):
    """The caller may write into the slopes: a second call gives the same slopes as the first."""
    sizes(H=H)
    close(learner.bring(after_overwriting)(learner.alibi_slopes, H), slopes(H), "the second slopes, after the first were overwritten,")


# ---- alibi_bias


bias_sizes = distinct("H", q_len=(3, 6), k_len=(7, 10))


def biases(H, q_len, k_len):
    """The definition, number by number."""
    rows = [[[slope * -abs(k_len - q_len + i - j) for j in range(k_len)] for i in range(q_len)] for slope in slopes(H).tolist()]
    return torch.tensor(rows)


@exercise("alibi_bias", weight=3)
@given(n=distinct("H", T=(3, 8)))
def test_bias_is_minus_slope_times_distance(learner, n):
    """With as many queries as keys, head h adds -slope[h] * |i - j| for query i and key j."""
    close(learner.alibi_bias(n.H, n.T, n.T), biases(n.H, n.T, n.T), "the bias")


@exercise("alibi_bias", weight=3)
@given(n=bias_sizes)
def test_the_queries_are_the_last_positions(learner, n):
    """With fewer queries than keys the queries are the last positions: the last query is at distance 0 from the last key."""
    close(learner.alibi_bias(n.H, n.q_len, n.k_len), biases(n.H, n.q_len, n.k_len), "the bias")


@exercise("alibi_bias", weight=2)
@given(n=distinct("H", k_len=(6, 11)))
def test_one_new_query_sees_every_distance(learner, n):
    """For one query and k_len keys the distances are k_len - 1, ..., 1, 0, for any number of keys."""
    close(learner.alibi_bias(n_heads=n.H, q_len=1, k_len=n.k_len), biases(n.H, 1, n.k_len), "the bias of one query")
    far = learner.alibi_bias(1, 1, 10_000)  # only now: code that makes a row for every key would make 10,000 rows
    close(far[..., :2], slopes(1) * torch.tensor([[[-9999.0, -9998.0]]]), "the bias of one query and 10,000 keys, for the first two of them,")


@exercise("alibi_bias")
@few
@given(n=bias_sizes)
def test_each_call_makes_a_bias_of_its_own(learner, n):
    """The caller may write into the bias: a second call with the same sizes gives the same bias as the first."""
    again = learner.bring(after_overwriting)(learner.alibi_bias, n.H, n.q_len, n.k_len)
    close(again, biases(n.H, n.q_len, n.k_len), "the second bias, after the first was overwritten,")


@exercise("alibi_bias", weight=2)
@given(n=bias_sizes)
def test_a_bias_is_the_last_rows_of_a_longer_one(learner, n):
    """alibi_bias(H, q_len, k_len) has the last q_len rows of alibi_bias(H, k_len, k_len)."""
    whole, part = learner.alibi_bias(n.H, n.k_len, n.k_len), learner.alibi_bias(n.H, n.q_len, n.k_len)
    close(whole, biases(n.H, n.k_len, n.k_len), f"the bias of {n.k_len} queries")
    close(part, whole[:, -n.q_len :], f"the bias of the last {n.q_len} queries")


@exercise("alibi_bias", weight=2)
@few
@given(n=distinct("H", T=(4, 8)))
def test_bias_falls_in_a_straight_line(learner, n):
    """It is 0 on the diagonal, decreases by the head's slope for each position of distance, and is the same for equal distances."""
    got = shaped(learner.alibi_bias(n.H, n.T, n.T), (n.H, n.T, n.T), "the bias", torch.float32)
    close(got.diagonal(dim1=1, dim2=2), torch.zeros(n.H, n.T), "the bias on the diagonal")
    steps = got[:, -1, 1:] - got[:, -1, :-1]
    close(steps, slopes(n.H)[:, None].expand(-1, n.T - 1), "the change of the last query's bias with every step nearer", tol=1e-4)
    close(got[:, 1:, 1:], got[:, :-1, :-1], "the bias one position later")


@exercise("alibi_bias", weight=2)
@given(H=st.sampled_from([1, 3, 6, 12]), T=st.integers(4, 7))
def test_every_head_falls_at_its_own_slope(learner, H, T):
    """Head h has slope h of alibi_slopes(n_heads), even if n_heads is not a power of two."""
    sizes(H=H, T=T)
    close(learner.alibi_bias(H, T, T + 2), biases(H, T, T + 2), "the bias")
