"""Chapter 9, continued: the filter whose limit is a share of the greatest probability."""

import math

import torch
from devices_and_dtypes import check_device_of_result
from distributions import logits_of
from grader.runner.marks import exercise
from grader.verdict.comparing import close, refuses, sizes
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_layouts import of_view
from strategies import distinct, seeds, tensor

INF = math.inf
cubes = distinct("B", "T", V=(8, 11))


def clear_of_ratios(logits, min_p):
    """min_p, or a little above it: no token's share of the greatest probability is so close to it that rounding would decide."""
    shares = (logits.double() - logits.double().amax(-1, keepdim=True)).exp()
    return next(m for m in (round(min_p * (1 + 0.007 * i), 5) for i in range(100)) if (shares / m - 1).abs().min() > 1e-3)


@exercise("min_p_filter", weight=4)
@given(n=cubes, min_p=st.sampled_from([0.02, 0.08, 0.25, 0.6]), seed=seeds)
def test_tokens_within_min_p_of_the_likeliest_keep_their_values(learner, reference, n, min_p, seed):
    """In each distribution the tokens at least min_p times as likely as the likeliest stay unchanged; all others become -inf: (..., V) -> (..., V)."""
    for shape in ((n.V,), (n.B, n.V), (n.B, n.T, n.V)):
        logits = tensor(seed, *shape, scale=2.0)
        m = clear_of_ratios(logits, min_p)
        close(learner.min_p_filter(logits, m), reference.min_p_filter(logits, m), f"the logits filtered with min_p = {m}")
    close(learner.bring(of_view)(learner.min_p_filter, logits, m), reference.min_p_filter(logits, m), f"the logits of a transposed tensor, filtered with min_p = {m}")


@exercise("min_p_filter", weight=3)
def test_the_limit_is_min_p_times_the_greatest_probability(learner):
    """The limit is min_p times the greatest probability: of 0.15, 0.5, 0.05 and 0.3, min_p = 0.25 keeps three, and of nearly equal probabilities all stay.

    So it is with a limit of 0.0007, and with 20,000 tokens, each of which is unlikely.
    """
    rare, wide = logits_of(0.3, 0.0001, 0.6996, 0.0003), torch.arange(20_000) % 2 * 1.0
    few, half = {m: learner.min_p_filter(rare, m) for m in (0.001, 0.0003)}, learner.min_p_filter(wide, 0.6)
    logits, sure = logits_of(0.15, 0.5, 0.05, 0.3), logits_of(0.02, 0.03, 0.95)
    even = logits_of(0.11, 0.14, 0.12, 0.13, 0.12, 0.13, 0.14, 0.11)
    hesitant, certain = learner.min_p_filter(even, 0.7), {m: learner.min_p_filter(sure, m) for m in (0.01, 0.025, 0.3)}
    found = {m: learner.min_p_filter(logits, m) for m in (0.05, 0.4, 0.8, 0.25)}
    for m, got in reversed(found.items()):  # the last call is the one that is shown
        gone = torch.tensor([0.15, 0.5, 0.05, 0.3]) < 0.5 * m
        close(got, logits.masked_fill(gone, -INF), f"the logits of 0.15, 0.5, 0.05 and 0.3, filtered with min_p = {m}")
    for m, got in certain.items():
        gone = torch.tensor([0.02, 0.03, 0.95]) < 0.95 * m
        close(got, sure.masked_fill(gone, -INF), f"the logits of 0.02, 0.03 and 0.95, filtered with min_p = {m}")
    for m, got in few.items():
        close(got, rare.masked_fill(torch.tensor([False, True, False, m > 0.0004]), -INF), f"the logits of 0.3, 0.0001, 0.6996 and 0.0003, filtered with min_p = {m}")
    close(half, wide.masked_fill(wide < 1, -INF), "the logits of 20,000 tokens, half of which are e times as likely as the others, filtered with min_p = 0.6")
    close(hesitant, even, "the logits of eight tokens with probabilities from 0.11 to 0.14, filtered with min_p = 0.7")


@exercise("min_p_filter", weight=2)
@settings(max_examples=3)
@given(V=st.integers(5, 8), min_p=st.sampled_from([0.05, 0.2, 0.5]), seed=seeds)
def test_each_row_has_its_own_limit(learner, reference, V, min_p, seed):
    """A row with one likely token keeps few tokens and a nearly uniform row keeps many, also if there are as many rows as tokens."""
    sizes(V=V)
    logits = tensor(seed, V, V) * torch.linspace(0.2, 5.0, V)[:, None]
    m = clear_of_ratios(logits, min_p)
    close(learner.min_p_filter(logits, m), reference.min_p_filter(logits, m), f"the logits of V rows, filtered with min_p = {m}")


@exercise("min_p_filter", weight=2)
@settings(max_examples=3)
@given(n=cubes, seed=seeds)
def test_with_min_p_zero_everything_stays(learner, n, seed):
    """With min_p = 0 every logit keeps its value, even if its probability rounds to 0, and -inf stays -inf. A single token stays at any min_p."""
    logits, one = tensor(seed, n.B, n.V, scale=3.0), tensor(seed, n.B, 1)
    logits[:, 0], logits[:, 2], logits[0, 3], logits[1, 4] = 30.0, -12.0, -200.0, -INF
    most, alone = learner.min_p_filter(logits, 0.01), learner.min_p_filter(one, 0.3)
    whole_too, whole = learner.min_p_filter(logits, 0), learner.min_p_filter(logits, 0.0)
    close(most, logits.masked_fill(torch.arange(n.V) > 0, -INF), "the logits of a token that is nearly sure, filtered with min_p = 0.01")
    close(whole, logits, "the logits filtered with min_p = 0.0")
    close(whole_too, logits, "the logits filtered with min_p = 0")
    close(alone, one, "the logits of a vocabulary of one token")


@exercise("min_p_filter", weight=2)
def test_with_min_p_one_the_likeliest_and_its_equals_stay(learner):
    """With min_p = 1 the likeliest token stays, and every token that is equally likely; all less likely ones are removed."""
    logits = torch.tensor([[1.0, 3.0, 2.0, 3.0, 3.0, 0.0], [5.0, 4.0, 1.0, 4.0, -2.0, 2.0], [-7.5, -7.5, -7.5, -7.5, -7.5, -7.5], [0.5, -1.0, 2.5, 1.0, -INF, 2.5]])
    nearly, whole, exact = learner.min_p_filter(logits, 0.9), learner.min_p_filter(logits, 1), learner.min_p_filter(logits, 1.0)
    expected = logits.masked_fill(logits < logits.amax(-1, keepdim=True), -INF)
    close(exact, expected, "the logits with equal ones among them, filtered with min_p = 1.0")
    close(whole, expected, "the logits with equal ones among them, filtered with min_p = 1")
    close(nearly, expected, "the logits with equal ones among them, filtered with min_p = 0.9")


@exercise("min_p_filter", weight=2)
@settings(max_examples=3)
@given(min_p=st.sampled_from([0.1, 0.3]), seed=seeds)
def test_masked_logits_stay_masked(learner, reference, min_p, seed):
    """Logits that are already -inf stay -inf and never become NaN; the limit comes from the others."""
    logits = tensor(seed, 3, 9, scale=1.5)
    logits[0, [1, 4]], logits[1, :6], logits[2, 1:] = -INF, -INF, -INF
    m = clear_of_ratios(logits, min_p)
    close(learner.min_p_filter(logits, m), reference.min_p_filter(logits, m), f"the logits with -inf among them, filtered with min_p = {m}")


@exercise("min_p_filter")
@settings(max_examples=3)
@given(n=cubes, shift=st.sampled_from([500.0, -500.0]), seed=seeds)
def test_only_differences_of_logits_count(learner, reference, n, shift, seed):
    """The same number added to all logits of a distribution changes nothing about which tokens stay, however large it is."""
    logits = (tensor(seed, n.B, n.V, scale=2.0) * 64).round() / 64
    m = clear_of_ratios(logits, 0.15)
    plain, moved = learner.min_p_filter(logits, m), learner.min_p_filter(logits + shift, m)
    close(plain, reference.min_p_filter(logits, m), f"the logits filtered with min_p = {m}")
    close(moved, plain + shift, f"the logits plus {shift:g}, filtered with min_p = {m}")


@exercise("min_p_filter")
def test_min_p_is_between_zero_and_one(learner):
    """min_p below 0 or above 1 raises a ValueError that names it."""
    logits = logits_of(0.3, 0.5, 0.2)
    close(learner.min_p_filter(logits, 0.5), logits.masked_fill(torch.tensor([False, False, True]), -INF), "the logits filtered with min_p = 0.5")
    for m in (-0.25, 1.5):
        because = "no token is more likely than the likeliest" if m > 1 else "a negative share of a probability is below every probability"
        refuses(lambda m=m: learner.min_p_filter(logits, m), naming={"min_p": m}, because=because)


@exercise("min_p_filter")
@settings(max_examples=2)
@given(n=cubes, seed=seeds)
def test_min_p_keeps_dtype_and_device(learner, reference, n, seed):
    """The result has the dtype of the logits and is on their device; two float64 values that are equal in float32 are different values."""
    logits = tensor(seed, n.B, n.V, scale=2.0, dtype=torch.float64)
    near = torch.tensor([0.5, 0.5 + 1e-10, 0.5 - 1e-10], dtype=torch.float64)
    fine = learner.min_p_filter(near, 1.0)
    m, plain = clear_of_ratios(logits, 0.2), logits_of(0.1, 0.6, 0.3)
    double, half = learner.min_p_filter(logits, m), learner.min_p_filter(plain.bfloat16(), 0.3)
    close(double, reference.min_p_filter(logits, m), "the logits in float64")
    close(half, plain.bfloat16().masked_fill(torch.tensor([True, False, False]), -INF), "the logits in bfloat16")
    close(fine, near.masked_fill(near < near.max(), -INF), "logits that differ by 1e-10, filtered with min_p = 1")
    check_device_of_result(learner, logits, learner.min_p_filter, logits, m)
