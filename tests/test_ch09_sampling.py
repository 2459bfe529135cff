"""Chapter 9, first part: temperature, top k and top p. Tests of one drawn token and of whole texts are in other files."""

import math

import torch
from devices_and_dtypes import check_device_of_result
from distributions import logits_of
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, shaped, sizes
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_layouts import of_view
from strategies import distinct, seeds, tensor

INF = math.inf
cubes = distinct("B", "T", V=(8, 11))


def clear_of_sums(logits, p):
    """p, or a little above it: no distribution's running sum is so close to it that rounding would decide."""
    sums = torch.softmax(logits.double(), -1).sort(dim=-1, descending=True).values.cumsum(-1)
    return next(q for q in (round(p + 0.00037 * i, 5) for i in range(100)) if (sums - q).abs().min() > 5e-5)


# ---- apply_temperature


@exercise("apply_temperature", weight=3)
@given(n=cubes, temperature=st.sampled_from([0.3, 0.5, 0.8, 1.7, 3.0]), seed=seeds)
def test_logits_are_divided_by_the_temperature(learner, n, temperature, seed):
    """Every logit is divided by the temperature, whatever the shape: differences grow below 1 and shrink above it."""
    for shape in ((n.V,), (n.B, n.V), (n.B, n.T, n.V)):
        logits = tensor(seed, *shape, scale=3.0)
        close(learner.apply_temperature(logits, temperature), logits / temperature, f"the logits at temperature {temperature}")
    close(learner.bring(of_view)(learner.apply_temperature, logits, temperature), logits / temperature, f"the logits of a transposed tensor at temperature {temperature}")


@exercise("apply_temperature")
@settings(max_examples=3)
@given(n=cubes, seed=seeds)
def test_temperature_one_changes_nothing(learner, n, seed):
    """At temperature 1 the logits do not change; a temperature may be a whole number."""
    logits = tensor(seed, n.B, n.V, scale=3.0)
    one, two = learner.apply_temperature(logits, 1), learner.apply_temperature(logits, 2)
    close(one, logits, "the logits at temperature 1")
    close(two, logits / 2, "the logits at temperature 2")


@exercise("apply_temperature")
@settings(max_examples=3)
@given(n=cubes, seed=seeds)
def test_masked_logits_stay_masked_at_any_temperature(learner, n, seed):
    """A logit of -inf stays -inf at every temperature and never becomes NaN; the others are divided as usual."""
    logits = tensor(seed, n.B, n.V, scale=2.0)
    logits[0, 1:3], logits[1, 0] = -INF, -INF
    cold, hot = learner.apply_temperature(logits, 0.25), learner.apply_temperature(logits, 8.0)
    close(cold, logits * 4, "the logits at temperature 0.25")
    close(hot, logits / 8, "the logits at temperature 8")


@exercise("apply_temperature", weight=2)
def test_a_temperature_must_be_above_zero(learner):
    """A temperature of 0 or below raises a ValueError that names it; one just above 0 is allowed."""
    logits = tensor(3, 2, 5, scale=2.0)
    close(learner.apply_temperature(logits, 0.01), logits / 0.01, "the logits at temperature 0.01")
    for temperature in (0.0, -0.75):
        refuses(
            lambda temperature=temperature: learner.apply_temperature(logits, temperature),
            naming={"temperature": temperature or 0},
            because=f"nothing can be divided by a temperature of {temperature}" if not temperature else "a negative temperature would turn the order round",
        )


@exercise("apply_temperature")
@settings(max_examples=2)
@given(n=cubes, seed=seeds)
def test_temperature_keeps_dtype_and_device(learner, n, seed):
    """The result has the dtype of the logits (float64 stays exact, bfloat16 stays bfloat16) and is on their device."""
    double = tensor(seed, n.B, n.V, scale=2.0, dtype=torch.float64)
    got = [learner.apply_temperature(double.to(kind), 0.7) for kind in (torch.float64, torch.bfloat16)]
    close(got[0], double / 0.7, "the logits in float64")
    close(got[1], double.bfloat16() / 0.7, "the logits in bfloat16")
    check_device_of_result(learner, double, learner.apply_temperature, double, 0.7)


# ---- top_k_filter


@exercise("top_k_filter", weight=3)
@given(n=cubes, k=st.integers(1, 7), seed=seeds)
def test_the_k_greatest_keep_their_values(learner, reference, n, k, seed):
    """In each distribution the k greatest logits keep their positions and values, and all others become -inf: (..., V) -> (..., V)."""
    sizes(k=k)
    for shape in ((n.V,), (n.B, n.V), (n.B, n.T, n.V)):
        logits = tensor(seed, *shape, scale=2.0)
        close(learner.top_k_filter(logits, k), reference.top_k_filter(logits, k), f"the logits filtered with k = {k}")
    close(learner.bring(of_view)(learner.top_k_filter, logits, k), reference.top_k_filter(logits, k), f"the logits of a transposed tensor, filtered with k = {k}")


@exercise("top_k_filter", weight=2)
@settings(max_examples=3)
@given(V=st.integers(4, 7), k=st.integers(1, 3), seed=seeds)
def test_each_row_has_its_own_threshold(learner, reference, V, k, seed):
    """Each row keeps its own k greatest logits: rows of very different or negative logits, and as many rows as tokens."""
    sizes(V=V, k=k)
    logits = tensor(seed, V, V) + 9.0 * torch.arange(V)[:, None] - 4.0 * V
    below, above = learner.top_k_filter(logits - 60, k), learner.top_k_filter(logits + 60, k)
    both = learner.top_k_filter(logits, k)
    close(both, reference.top_k_filter(logits, k), "the logits of V rows")
    close(below, reference.top_k_filter(logits - 60, k), "the logits of V rows, all of them negative")
    close(above, reference.top_k_filter(logits + 60, k), "the logits of V rows, all of them positive")


@exercise("top_k_filter", weight=2)
def test_logits_equal_to_the_kth_all_stay(learner):
    """All logits equal to the k-th greatest stay, so more than k may stay. Equal logits above it count one each."""
    logits = torch.tensor([[1.0, 3.0, 2.0, 2.0, 2.0, 0.0], [5.0, 5.0, 4.0, 4.0, 1.0, 4.0], [7.0, 7.0, 7.0, 7.0, 7.0, 7.0]])
    at_least = {5: (1, 4, 7), 1: (3, 5, 7), 3: (2, 4, 7), 2: (2, 5, 7)}
    found = {k: learner.top_k_filter(logits, k) for k in at_least}
    for k, thresholds in reversed(at_least.items()):  # the last call is the one that is shown
        expected = logits.masked_fill(logits < torch.tensor(thresholds)[:, None], -INF)
        close(found[k], expected, f"the logits with ties, filtered with k = {k}")


@exercise("top_k_filter", weight=2)
@settings(max_examples=3)
@given(n=cubes, seed=seeds)
def test_k_may_be_larger_than_the_vocabulary(learner, n, seed):
    """With k = V or above it every logit keeps its value; with a single token, too."""
    logits, one = tensor(seed, n.B, n.V, scale=2.0), tensor(seed, n.B, 1)
    less, alone = learner.top_k_filter(logits, n.V - 1), learner.top_k_filter(one, 3)
    same_k, more = learner.top_k_filter(logits, n.V), learner.top_k_filter(logits, 10 * n.V)
    close(less, logits.masked_fill(logits == logits.amin(-1, keepdim=True), -INF), "the logits with k = V - 1")
    close(same_k, logits, "the logits with k = V")
    close(more, logits, "the logits with k above V")
    close(alone, one, "the logits of a vocabulary of one token")


@exercise("top_k_filter")
@settings(max_examples=3)
@given(seed=seeds)
def test_masked_logits_are_not_among_the_k(learner, seed):
    """Logits that are already -inf stay -inf and do not count among the k. If fewer than k are finite, all of these stay."""
    logits = tensor(seed, 3, 8, scale=2.0)
    logits[0, [1, 4]], logits[1, :6], logits[2, 1:] = -INF, -INF, -INF
    found = {k: learner.top_k_filter(logits, k) for k in (1, 4)}
    for k, got in found.items():
        order = logits.argsort(dim=-1, descending=True).argsort(dim=-1)
        close(got, logits.masked_fill(order >= k, -INF), f"the logits with -inf among them, filtered with k = {k}")


@exercise("top_k_filter")
def test_k_below_one_raises_an_error(learner):
    """k below 1 raises a ValueError that names it; 1 is allowed."""
    logits = torch.tensor([[1.5, -2.0, 3.0], [0.5, 0.25, -1.0]])
    close(learner.top_k_filter(logits, 1), torch.tensor([[-INF, -INF, 3.0], [0.5, -INF, -INF]]), "the logits filtered with k = 1")
    for k in (0, -2):
        refuses(lambda k=k: learner.top_k_filter(logits, k), naming={"k": k}, because=f"with k = {k} no token would stay")


@exercise("top_k_filter")
@settings(max_examples=2)
@given(n=cubes, seed=seeds)
def test_top_k_keeps_dtype_and_device(learner, reference, n, seed):
    """The result has the dtype of the logits and is on their device; two float64 values that are equal in float32 are different values."""
    logits = tensor(seed, n.B, n.V, scale=2.0, dtype=torch.float64)
    near = torch.tensor([1.0, 1.0 + 1e-12, 1.0 + 2e-12, -3.0], dtype=torch.float64)
    double, half, fine = learner.top_k_filter(logits, 3), learner.top_k_filter(logits.bfloat16(), 3), learner.top_k_filter(near, 2)
    close(double, reference.top_k_filter(logits, 3), "the logits in float64")
    close(half, reference.top_k_filter(logits.bfloat16(), 3), "the logits in bfloat16")
    close(fine, torch.tensor([-INF, 1.0, 1.0, -INF], dtype=torch.float64), "logits that differ by 1e-12")
    check_device_of_result(learner, logits, learner.top_k_filter, logits, 3)


# ---- top_p_filter


@exercise("top_p_filter", weight=4)
@given(n=cubes, p=st.sampled_from([0.1, 0.35, 0.6, 0.85, 0.95]), seed=seeds)
def test_the_nucleus_keeps_its_values(learner, reference, n, p, seed):
    """In each distribution the smallest set of likeliest tokens that reach p together stays unchanged; all others become -inf: (..., V) -> (..., V)."""
    for shape in ((n.V,), (n.B, n.V), (n.B, n.T, n.V)):
        logits = tensor(seed, *shape, scale=2.0)
        q = clear_of_sums(logits, p)
        close(learner.top_p_filter(logits, q), reference.top_p_filter(logits, q), f"the logits filtered with p = {q}")
    close(learner.bring(of_view)(learner.top_p_filter, logits, q), reference.top_p_filter(logits, q), f"the logits of a transposed tensor, filtered with p = {q}")


@exercise("top_p_filter", weight=3)
def test_the_token_that_crosses_p_stays(learner):
    """Of 0.5, 0.3 and 0.2, p = 0.7 keeps two: the second is needed to reach it. At least one token stays, however small p is, and p = 0.999 removes a few."""
    logits, sure, nearly = logits_of(0.3, 0.5, 0.2), logits_of(0.02, 0.01, 0.97), logits_of(0.4, 0.0004, 0.5996)
    most = learner.top_p_filter(nearly, 0.999)
    certain = {p: learner.top_p_filter(sure, p) for p in (1e-6, 0.5, 0.98)}
    found = {p: learner.top_p_filter(logits, p) for p in (1e-6, 0.4, 0.6, 0.9, 0.7)}
    for p, got in reversed(found.items()):  # the last call is the one that is shown
        gone = [p < 0.5, False, p < 0.8]
        close(got, logits.masked_fill(torch.tensor(gone), -INF), f"the logits of 0.3, 0.5 and 0.2, filtered with p = {p}")
    for p, got in certain.items():
        close(got, sure.masked_fill(torch.tensor([p < 0.97, True, False]), -INF), f"the logits of 0.02, 0.01 and 0.97, filtered with p = {p}")
    close(most, nearly.masked_fill(torch.tensor([False, True, False]), -INF), "the logits of 0.4, 0.0004 and 0.5996, filtered with p = 0.999")


@exercise("top_p_filter", weight=2)
@settings(max_examples=3)
@given(V=st.integers(5, 8), p=st.sampled_from([0.3, 0.6, 0.9]), seed=seeds)
def test_each_row_has_its_own_nucleus(learner, reference, V, p, seed):
    """A row with one likely token keeps few tokens and a nearly uniform row keeps many, also if there are as many rows as tokens, or hundreds of tokens."""
    sizes(V=V)
    logits, wide = tensor(seed, V, V) * torch.linspace(0.2, 5.0, V)[:, None], tensor(seed, 300).argsort() / 600
    q, r = clear_of_sums(logits, p), clear_of_sums(wide, 0.7)
    many = learner.top_p_filter(wide, r)
    close(learner.top_p_filter(logits, q), reference.top_p_filter(logits, q), f"the logits of V rows, filtered with p = {q}")
    close(many, reference.top_p_filter(wide, r), f"the logits of 300 tokens, filtered with p = {r}")


@exercise("top_p_filter", weight=2)
@settings(max_examples=3)
@given(n=cubes, seed=seeds)
def test_with_p_one_everything_stays(learner, n, seed):
    """With p = 1 every token stays, even tokens so unlikely that the sum rounds to 1 without them; a single token stays at any p."""
    logits, one = tensor(seed, n.B, n.V, scale=3.0), tensor(seed, n.B, 1)
    logits[:, 0], logits[:, 2], logits[0, 3] = 30.0, -12.0, -200.0
    most, alone = learner.top_p_filter(logits, 0.5), learner.top_p_filter(one, 0.3)
    whole_too, whole = learner.top_p_filter(logits, 1), learner.top_p_filter(logits, 1.0)
    close(most, logits.masked_fill(torch.arange(n.V) > 0, -INF), "the logits of a token that is nearly sure, filtered with p = 0.5")
    close(whole, logits, "the logits filtered with p = 1.0")
    close(whole_too, logits, "the logits filtered with p = 1")
    close(alone, one, "the logits of a vocabulary of one token")


@exercise("top_p_filter", weight=2)
def test_of_equal_tokens_only_as_many_stay_as_are_needed(learner):
    """Of equally likely tokens any may stay, but only as many as are needed to reach p."""
    cases = [([0.125] * 8, 0.45, 4), ([0.125] * 8, 0.1, 1), ([0.2, 0.4, 0.2, 0.2], 0.5, 2), ([0.2, 0.4, 0.2, 0.2], 0.7, 3), ([0.35, 0.15, 0.35, 0.15], 0.3, 1)]
    found = [learner.top_p_filter(logits_of(*chances), p) for chances, p, _ in cases]
    for got, (chances, p, needed) in zip(found, cases):
        fits(got, logits_of(*chances), {needed}, f"the probabilities {chances} and p = {p}")


def fits(got, logits, numbers, case):
    """`got` keeps one of these numbers of tokens, the likeliest ones, unchanged."""
    stays = shaped(got, logits.shape, f"for {case}, the result") > -INF
    count = int(stays.sum())
    wanted = " or ".join(str(number) for number in sorted(numbers))
    holds(count in numbers, f"for {case}, {count} tokens stay; it should be {wanted}")
    holds(logits[stays].min() >= logits.masked_fill(stays, -INF).max(), f"for {case}, a removed token is likelier than one that stays")
    close(got[stays], logits[stays], f"for {case}, the logits that stay")


@exercise("top_p_filter")
def test_where_p_is_a_running_sum_rounding_may_decide(learner):
    """If some tokens add up to exactly p, they are enough; because of rounding one more may stay, but not two."""
    chances = [0.125, 0.5, 0.0625, 0.25, 0.0625]
    found = {p: learner.top_p_filter(logits_of(*chances), p) for p in (0.5, 0.75, 0.875)}
    for (p, got), needed in zip(found.items(), (1, 2, 3)):
        fits(got, logits_of(*chances), {needed, needed + 1}, f"the probabilities {chances} and p = {p}")


@exercise("top_p_filter", weight=2)
@settings(max_examples=3)
@given(seed=seeds)
def test_masked_logits_are_not_in_the_nucleus(learner, reference, seed):
    """Logits that are already -inf stay -inf and have probability 0. The nucleus consists of others, and with p = 1 of all others."""
    logits = tensor(seed, 3, 9, scale=1.5)
    logits[0, [1, 4]], logits[1, :6], logits[2, 1:] = -INF, -INF, -INF
    q = clear_of_sums(logits[:2], 0.7)
    some, whole = learner.top_p_filter(logits, q), learner.top_p_filter(logits, 1.0)
    close(some, reference.top_p_filter(logits, q), f"the logits with -inf among them, filtered with p = {q}")
    close(whole, logits, "the logits with -inf among them, filtered with p = 1")


@exercise("top_p_filter")
@settings(max_examples=3)
@given(n=cubes, shift=st.sampled_from([500.0, -500.0]), seed=seeds)
def test_only_differences_of_logits_count(learner, reference, n, shift, seed):
    """The same number added to all logits of a distribution changes nothing about its nucleus, however large it is."""
    logits = (tensor(seed, n.B, n.V, scale=2.0) * 64).round() / 64
    q = clear_of_sums(logits, 0.8)
    plain, moved = learner.top_p_filter(logits, q), learner.top_p_filter(logits + shift, q)
    close(plain, reference.top_p_filter(logits, q), f"the logits filtered with p = {q}")
    close(moved, plain + shift, f"the logits plus {shift:g}, filtered with p = {q}")


@exercise("top_p_filter")
def test_p_is_above_zero_and_at_most_one(learner):
    """p at or below 0, or above 1, raises a ValueError that names it."""
    logits = logits_of(0.3, 0.5, 0.2)
    close(learner.top_p_filter(logits, 0.7), logits.masked_fill(torch.tensor([False, False, True]), -INF), "the logits filtered with p = 0.7")
    for p in (0, -0.25, 1.5):
        refuses(lambda p=p: learner.top_p_filter(logits, p), naming={"p": p}, because=f"no set of tokens {'reaches' if p > 1 else 'is the smallest to reach'} p = {p}")


@exercise("top_p_filter")
@settings(max_examples=2)
@given(n=cubes, seed=seeds)
def test_top_p_keeps_dtype_and_device(learner, reference, n, seed):
    """The result has the dtype of the logits and is on their device; float64 probabilities are added up in float64."""
    logits = tensor(seed, n.B, n.V, scale=2.0, dtype=torch.float64)
    q, plain = clear_of_sums(logits, 0.7), logits_of(0.1, 0.6, 0.3)
    near = torch.tensor([0.25, 0.4, 0.35], dtype=torch.float64).log()
    fine = {p: learner.top_p_filter(near, p) for p in (0.4 - 1e-9, 0.4 + 1e-9)}
    double, half = learner.top_p_filter(logits, q), learner.top_p_filter(plain.bfloat16(), 0.75)
    close(double, reference.top_p_filter(logits, q), "the logits in float64")
    close(half, plain.bfloat16().masked_fill(torch.tensor([True, False, False]), -INF), "the logits in bfloat16")
    for p, got in fine.items():
        close(got, near.masked_fill(torch.tensor([True, False, p < 0.4]), -INF), f"the logits of 0.25, 0.4 and 0.35 in float64, filtered with p = {p}")
    check_device_of_result(learner, logits, learner.top_p_filter, logits, q)
