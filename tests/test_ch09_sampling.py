"""Chapter 9, first part: temperature, the two filters, and drawing one token. Whole texts follow in the two files beside it.

Sampling is tested by frequencies. A token of probability q that is drawn a share f of n times has, by Chernoff's bound, a chance below
2 exp(-n KL(f, q)) of straying as far as it did. All comparisons of a run are fewer than 100, and each allows n KL up to 20: a correct
implementation, however it draws, fails by bad luck in less than 100 * 2 exp(-20) of all runs, which is five in ten million.
"""

import math

import torch
from elsewhere import follows_its_inputs
from grader.comparing import close, holds, refuses, same, shaped, sizes
from grader.marks import exercise
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import distinct, seeds, tensor

INF = math.inf
LUCK = 20.0
cubes = distinct("B", "T", V=(8, 11))


def logits_of(*probabilities):
    """Logits whose softmax these are; -inf where it is 0."""
    return torch.tensor(probabilities, dtype=torch.float64).log().float()


def clear_of_sums(logits, p):
    """p, or a little above it, so that no distribution's running sum lies so near that rounding would decide."""
    sums = torch.softmax(logits.double(), -1).sort(dim=-1, descending=True).values.cumsum(-1)
    return next(round(q, 4) for q in (p + 0.0037 * i for i in range(100)) if (sums - round(q, 4)).abs().min() > 1e-3)


# ---- apply_temperature


@exercise("apply_temperature", weight=3)
@given(n=cubes, temperature=st.sampled_from([0.3, 0.5, 0.8, 1.7, 3.0]), seed=seeds)
def test_logits_are_divided_by_the_temperature(learner, n, temperature, seed):
    """Every logit is divided by the temperature, whatever the shape: differences grow below 1 and shrink above it."""
    for shape in ((n.V,), (n.B, n.V), (n.B, n.T, n.V)):
        logits = tensor(seed, *shape, scale=3.0)
        close(learner.apply_temperature(logits, temperature), logits / temperature, f"the logits at temperature {temperature}")


@exercise("apply_temperature")
@settings(max_examples=3)
@given(n=cubes, seed=seeds)
def test_temperature_one_changes_nothing(learner, n, seed):
    """At temperature 1 the logits are what they were; a temperature may be a whole number."""
    logits = tensor(seed, n.B, n.V, scale=3.0)
    one, two = learner.apply_temperature(logits, 1), learner.apply_temperature(logits, 2)
    close(one, logits, "the logits at temperature 1")
    close(two, logits / 2, "the logits at temperature 2")


@exercise("apply_temperature")
@settings(max_examples=3)
@given(n=cubes, seed=seeds)
def test_impossible_stays_impossible_at_any_temperature(learner, n, seed):
    """A logit of -inf is -inf at every temperature, and never NaN; the others are divided as always."""
    logits = tensor(seed, n.B, n.V, scale=2.0)
    logits[0, 1:3], logits[1, 0] = -INF, -INF
    cold, hot = learner.apply_temperature(logits, 0.25), learner.apply_temperature(logits, 8.0)
    close(cold, logits * 4, "the logits at temperature 0.25")
    close(hot, logits / 8, "the logits at temperature 8")


@exercise("apply_temperature", weight=2)
def test_a_temperature_must_be_above_zero(learner):
    """A temperature of 0 or below raises a ValueError that names it; one just above 0 is fine."""
    logits = tensor(3, 2, 5, scale=2.0)
    close(learner.apply_temperature(logits, 0.01), logits / 0.01, "the logits at temperature 0.01")
    for temperature in (0.0, -0.75):
        refuses(
            lambda temperature=temperature: learner.apply_temperature(logits, temperature),
            naming=(temperature or 0,),
            because=f"nothing can be divided by a temperature of {temperature}" if not temperature else "a negative temperature would turn the order round",
        )


@exercise("apply_temperature")
@settings(max_examples=2)
@given(n=cubes, seed=seeds)
def test_cooler_logits_keep_their_dtype_and_device(learner, n, seed):
    """The result has the dtype of the logits (float64 stays exact, bfloat16 stays bfloat16) and is where they are."""
    double = tensor(seed, n.B, n.V, scale=2.0, dtype=torch.float64)
    got = [learner.apply_temperature(double.to(kind), 0.7) for kind in (torch.float64, torch.bfloat16)]
    close(got[0], double / 0.7, "the logits in float64")
    close(got[1], double.bfloat16() / 0.7, "the logits in bfloat16")
    follows_its_inputs(learner, double, learner.apply_temperature, double, 0.7)


# ---- top_k_filter


@exercise("top_k_filter", weight=3)
@given(n=cubes, k=st.integers(1, 7), seed=seeds)
def test_the_k_greatest_stay_as_they_are(learner, reference, n, k, seed):
    """In each distribution the k greatest logits keep their places and values, and all others become -inf: (..., V) -> (..., V)."""
    sizes(k=k)
    for shape in ((n.V,), (n.B, n.V), (n.B, n.T, n.V)):
        logits = tensor(seed, *shape, scale=2.0)
        close(learner.top_k_filter(logits, k), reference.top_k_filter(logits, k), f"the logits filtered with k = {k}")


@exercise("top_k_filter", weight=2)
@settings(max_examples=3)
@given(V=st.integers(4, 7), k=st.integers(1, 3), seed=seeds)
def test_each_row_has_its_own_threshold(learner, reference, V, k, seed):
    """Rows of very different heights each keep their own k greatest, also where there are as many rows as tokens, and below zero as above."""
    sizes(V=V, k=k)
    logits = tensor(seed, V, V) + 9.0 * torch.arange(V)[:, None] - 4.0 * V
    below, above = learner.top_k_filter(logits - 60, k), learner.top_k_filter(logits + 60, k)
    both = learner.top_k_filter(logits, k)
    close(both, reference.top_k_filter(logits, k), "the logits of V rows")
    close(below, reference.top_k_filter(logits - 60, k), "the logits of V rows, all of them negative")
    close(above, reference.top_k_filter(logits + 60, k), "the logits of V rows, all of them positive")


@exercise("top_k_filter", weight=2)
def test_all_that_tie_with_the_kth_stay(learner):
    """Logits equal to the k-th greatest all stay, so that more than k may; those above count one each, also where they tie."""
    logits = torch.tensor([[1.0, 3.0, 2.0, 2.0, 2.0, 0.0], [5.0, 5.0, 4.0, 4.0, 1.0, 4.0], [7.0, 7.0, 7.0, 7.0, 7.0, 7.0]])
    at_least = {5: (1, 4, 7), 1: (3, 5, 7), 3: (2, 4, 7), 2: (2, 5, 7)}
    found = {k: learner.top_k_filter(logits, k) for k in at_least}
    for k, thresholds in reversed(at_least.items()):  # the last call is the one that is shown
        expected = logits.masked_fill(logits < torch.tensor(thresholds)[:, None], -INF)
        close(found[k], expected, f"the logits with ties, filtered with k = {k}")


@exercise("top_k_filter", weight=2)
@settings(max_examples=3)
@given(n=cubes, seed=seeds)
def test_k_may_be_as_large_as_you_like(learner, n, seed):
    """With k = V or above it everything stays as it is; of one single token, too."""
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
def test_impossible_tokens_are_not_among_the_k(learner, seed):
    """Entries that are -inf already stay so, and take no place among the k; fewer finite ones than k all stay."""
    logits = tensor(seed, 3, 8, scale=2.0)
    logits[0, [1, 4]], logits[1, :6], logits[2, 1:] = -INF, -INF, -INF
    found = {k: learner.top_k_filter(logits, k) for k in (1, 4)}
    for k, got in found.items():
        order = logits.argsort(dim=-1, descending=True).argsort(dim=-1)
        close(got, logits.masked_fill(order >= k, -INF), f"the logits with -inf among them, filtered with k = {k}")


@exercise("top_k_filter")
def test_at_least_one_must_stay(learner):
    """k below 1 raises a ValueError that names it; 1 is fine."""
    logits = torch.tensor([[1.5, -2.0, 3.0], [0.5, 0.25, -1.0]])
    close(learner.top_k_filter(logits, 1), torch.tensor([[-INF, -INF, 3.0], [0.5, -INF, -INF]]), "the logits filtered with k = 1")
    for k in (0, -2):
        refuses(lambda k=k: learner.top_k_filter(logits, k), naming=(k,), because=f"with k = {k} no token would stay")


@exercise("top_k_filter")
@settings(max_examples=2)
@given(n=cubes, seed=seeds)
def test_filtered_by_k_in_the_same_dtype_and_place(learner, reference, n, seed):
    """The result has the dtype of the logits and is where they are; float64 tells apart what float32 could not."""
    logits = tensor(seed, n.B, n.V, scale=2.0, dtype=torch.float64)
    near = torch.tensor([1.0, 1.0 + 1e-12, 1.0 + 2e-12, -3.0], dtype=torch.float64)
    double, half, fine = learner.top_k_filter(logits, 3), learner.top_k_filter(logits.bfloat16(), 3), learner.top_k_filter(near, 2)
    close(double, reference.top_k_filter(logits, 3), "the logits in float64")
    close(half, reference.top_k_filter(logits.bfloat16(), 3), "the logits in bfloat16")
    close(fine, torch.tensor([-INF, 1.0, 1.0, -INF], dtype=torch.float64), "logits that differ by 1e-12")
    follows_its_inputs(learner, logits, learner.top_k_filter, logits, 3)


# ---- top_p_filter


@exercise("top_p_filter", weight=4)
@given(n=cubes, p=st.sampled_from([0.1, 0.35, 0.6, 0.85, 0.95]), seed=seeds)
def test_the_nucleus_stays_as_it_is(learner, reference, n, p, seed):
    """In each distribution the likeliest tokens stay as they are, as few as reach p together; all others become -inf: (..., V) -> (..., V)."""
    for shape in ((n.V,), (n.B, n.V), (n.B, n.T, n.V)):
        logits = tensor(seed, *shape, scale=2.0)
        q = clear_of_sums(logits, p)
        close(learner.top_p_filter(logits, q), reference.top_p_filter(logits, q), f"the logits filtered with p = {q}")


@exercise("top_p_filter", weight=3)
def test_the_token_that_crosses_p_stays(learner):
    """Of 0.5, 0.3 and 0.2, p = 0.7 keeps two: the second is needed to reach it. Never less than one stays, however small p is."""
    logits, sure = logits_of(0.3, 0.5, 0.2), logits_of(0.02, 0.01, 0.97)
    certain = {p: learner.top_p_filter(sure, p) for p in (1e-6, 0.5, 0.98)}
    found = {p: learner.top_p_filter(logits, p) for p in (1e-6, 0.4, 0.6, 0.9, 0.7)}
    for p, got in reversed(found.items()):  # the last call is the one that is shown
        gone = [p < 0.5, False, p < 0.8]
        close(got, logits.masked_fill(torch.tensor(gone), -INF), f"the logits of 0.3, 0.5 and 0.2, filtered with p = {p}")
    for p, got in certain.items():
        close(got, sure.masked_fill(torch.tensor([p < 0.97, True, False]), -INF), f"the logits of 0.02, 0.01 and 0.97, filtered with p = {p}")


@exercise("top_p_filter", weight=2)
@settings(max_examples=3)
@given(V=st.integers(5, 8), p=st.sampled_from([0.3, 0.6, 0.9]), seed=seeds)
def test_each_row_has_its_own_nucleus(learner, reference, V, p, seed):
    """A row that is sure keeps few tokens and a row that hesitates keeps many, also where there are as many rows as tokens."""
    sizes(V=V)
    logits = tensor(seed, V, V) * torch.linspace(0.2, 5.0, V)[:, None]
    q = clear_of_sums(logits, p)
    close(learner.top_p_filter(logits, q), reference.top_p_filter(logits, q), f"the logits of V rows, filtered with p = {q}")


@exercise("top_p_filter", weight=2)
@settings(max_examples=3)
@given(n=cubes, seed=seeds)
def test_with_p_one_everything_stays(learner, n, seed):
    """With p = 1 nothing goes, not even tokens so unlikely that the sum is 1 without them; and of one single token nothing goes at any p."""
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
    """Of equally likely tokens any may stay, but no more of them than it takes to reach p."""
    cases = [([0.125] * 8, 0.45, 4), ([0.125] * 8, 0.1, 1), ([0.2, 0.4, 0.2, 0.2], 0.5, 2), ([0.2, 0.4, 0.2, 0.2], 0.7, 3), ([0.35, 0.15, 0.35, 0.15], 0.3, 1)]
    found = [learner.top_p_filter(logits_of(*chances), p) for chances, p, _ in cases]
    for got, (chances, p, needed) in zip(found, cases):
        fits(got, logits_of(*chances), {needed}, f"the probabilities {chances} and p = {p}")


def fits(got, logits, numbers, case):
    """`got` keeps so many tokens of one distribution, of the likeliest ones, as they were."""
    stays = shaped(got, logits.shape, f"for {case}, the result") > -INF
    count = int(stays.sum())
    wanted = " or ".join(str(number) for number in sorted(numbers))
    holds(count in numbers, f"for {case}, {count} tokens stay; it should be {wanted}")
    holds(logits[stays].min() >= logits.masked_fill(stays, -INF).max(), f"for {case}, a token goes that is likelier than one that stays")
    close(got[stays], logits[stays], f"for {case}, the logits that stay")


@exercise("top_p_filter")
def test_where_p_is_a_running_sum_rounding_may_decide(learner):
    """Where some tokens add up to exactly p they are enough; one more may stay by rounding, and no second one."""
    chances = [0.125, 0.5, 0.0625, 0.25, 0.0625]
    found = {p: learner.top_p_filter(logits_of(*chances), p) for p in (0.5, 0.75, 0.875)}
    for (p, got), needed in zip(found.items(), (1, 2, 3)):
        fits(got, logits_of(*chances), {needed, needed + 1}, f"the probabilities {chances} and p = {p}")


@exercise("top_p_filter", weight=2)
@settings(max_examples=3)
@given(seed=seeds)
def test_impossible_tokens_are_not_in_the_nucleus(learner, reference, seed):
    """Entries that are -inf already stay so and have no probability; the nucleus is found among the others, with p = 1 all of those."""
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
        refuses(lambda p=p: learner.top_p_filter(logits, p), naming=(p,), because=f"no set of tokens {'reaches' if p > 1 else 'is the smallest to reach'} p = {p}")


@exercise("top_p_filter")
@settings(max_examples=2)
@given(n=cubes, seed=seeds)
def test_filtered_by_p_in_the_same_dtype_and_place(learner, reference, n, seed):
    """The result has the dtype of the logits and is where they are."""
    logits = tensor(seed, n.B, n.V, scale=2.0, dtype=torch.float64)
    q, plain = clear_of_sums(logits, 0.7), logits_of(0.1, 0.6, 0.3)
    double, half = learner.top_p_filter(logits, q), learner.top_p_filter(plain.bfloat16(), 0.75)
    close(double, reference.top_p_filter(logits, q), "the logits in float64")
    close(half, plain.bfloat16().masked_fill(torch.tensor([True, False, False]), -INF), "the logits in bfloat16")
    follows_its_inputs(learner, logits, learner.top_p_filter, logits, q)


# ---- sample_next_token


def draws(sample, logits, n, seed, temperature=1.0, top_k=None, top_p=None):
    """n independent draws from each distribution of `logits`, in one call: (n, ...); brought to the far side."""
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    return sample(logits.repeat(n, *[1] * logits.dim()), temperature, top_k, top_p, generator)


def one_by_one(sample, logits, n, seed):
    """n calls with the generator as it goes on; brought to the far side."""
    generator = torch.Generator().manual_seed(seed)
    return torch.stack([sample(logits, generator=generator) for _ in range(n)])


def as_often(ids, probabilities, what):
    """Ids (n,) come as often as their probabilities (V,) say; see the top of this file."""
    counts = torch.bincount(ids, minlength=len(probabilities)).tolist()
    holds(len(counts) == len(probabilities), f"{what}, id {int(ids.max())} was drawn of a vocabulary of {len(probabilities)}")
    for token, (count, q) in enumerate(zip(counts, probabilities.double().tolist())):
        f = count / len(ids)
        strays = sum(a * math.log(a / b) if b > 0 else INF for a, b in ((f, q), (1 - f, 1 - q)) if a > 0)
        holds(len(ids) * strays < LUCK, f"{what}, token {token} should have probability {q:.3f}; it was drawn {count} times of {len(ids)}")


def drawn(got, shape, vocab):
    """Ids of this shape, each in the vocabulary."""
    ids = shaped(got, shape, "the tensor of ids", torch.int64)
    holds(bool(((ids >= 0) & (ids < vocab)).all()), f"ids should be from 0 to {vocab - 1}; they are from {int(ids.min())} to {int(ids.max())}")
    return ids


@exercise("sample_next_token", weight=2)
@settings(max_examples=3)
@given(n=cubes, seed=seeds)
def test_temperature_zero_takes_the_likeliest(learner, n, seed):
    """With temperature 0 each distribution gives the place of its greatest logit, whatever the filters and however often it is asked."""
    for shape in ((n.V,), (n.B, n.V), (n.B, n.T, n.V)):
        logits = tensor(seed, *shape, scale=2.0)
        got = [learner.sample_next_token(logits, temperature=0), learner.sample_next_token(logits, 0.0, top_k=3, top_p=0.9)]
        got.append(learner.sample_next_token(logits, 0.0, 1))
        for ids in got:
            same(ids, logits.argmax(-1), "the tensor of ids at temperature 0")


@exercise("sample_next_token", weight=3)
def test_tokens_come_as_often_as_their_probabilities_say(learner):
    """Each row draws from the softmax of its own logits, and independently of the other rows."""
    chances = torch.tensor([[0.1, 0.45, 0.05, 0.25, 0.15], [0.3, 0.05, 0.4, 0.05, 0.2]])
    ids = drawn(learner.bring(draws)(learner.sample_next_token, chances.log() + 3.0, 2000, 11), (2000, 2), 5)
    as_often(ids[:, 0], chances[0], "in the first of two rows")
    as_often(ids[:, 1], chances[1], "in the second of two rows")
    as_often(ids[:, 0] * 5 + ids[:, 1], torch.outer(chances[0], chances[1]).flatten(), "of the 25 pairs that two rows can make")


@exercise("sample_next_token", weight=2)
def test_a_temperature_changes_the_frequencies(learner):
    """The logits are divided by the temperature before they become probabilities: below 1 the likely come more often, above 1 less."""
    logits = logits_of(0.15, 0.5, 0.05, 0.3)
    found = {t: learner.bring(draws)(learner.sample_next_token, logits, 3000, 5, t) for t in (0.5, 2.0)}
    for temperature, ids in found.items():
        as_often(drawn(ids, (3000,), 4), torch.softmax(logits / temperature, -1), f"at temperature {temperature}")


@exercise("sample_next_token", weight=2)
def test_what_is_filtered_is_never_drawn(learner):
    """top_k, top_p, and -inf in the logits leave some tokens; those are drawn with the probabilities they have among themselves."""
    logits = logits_of(0.16, 0.3, 0.0, 0.25, 0.04, 0.2, 0.05)
    cases = {"top_k = 3": (3, None, [1, 3, 5]), "top_p = 0.85": (None, 0.85, [0, 1, 3, 5]), "no filter": (None, None, [0, 1, 3, 4, 5, 6])}
    found = {name: learner.bring(draws)(learner.sample_next_token, logits, 3000, 6, 1.0, k, p) for name, (k, p, _) in cases.items()}
    for name, (_, _, stays) in cases.items():
        left = torch.zeros(7).index_fill(0, torch.tensor(stays), 1.0) * logits.exp()
        as_often(drawn(found[name], (3000,), 7), left / left.sum(), f"with {name}")


@exercise("sample_next_token", weight=3)
def test_temperature_comes_before_k_and_k_before_p(learner):
    """The nucleus is taken of the probabilities that the temperature gave, and of what top_k has left."""
    logits = logits_of(0.2, 0.4, 0.1, 0.3)
    cases = {
        "top_k = 2 and top_p = 0.8": (1.0, 2, 0.8, [1, 3]),
        "top_k = 3 and top_p = 0.42": (1.0, 3, 0.42, [1]),
        "temperature 0.25 and top_p = 0.6": (0.25, None, 0.6, [1]),
        "temperature 3 and top_p = 0.75": (3.0, None, 0.75, [0, 1, 3]),
        "temperature 3, top_k = 3 and top_p = 0.65": (3.0, 3, 0.65, [1, 3]),
        "top_k = 2 and top_p = 0.5": (1.0, 2, 0.5, [1]),
    }
    found = {name: learner.bring(draws)(learner.sample_next_token, logits, 2000, 7, t, k, p) for name, (t, k, p, _) in cases.items()}
    for name, (temperature, _, _, stays) in reversed(cases.items()):
        left = torch.zeros(4).index_fill(0, torch.tensor(stays), 1.0) * (logits / temperature).exp()
        as_often(drawn(found[name], (2000,), 4), left / left.sum(), f"with {name}")


@exercise("sample_next_token", weight=2)
@settings(max_examples=3)
@given(n=cubes, seed=seeds)
def test_each_row_draws_from_its_own_tokens(learner, n, seed):
    """Logits (..., V) give ids (...), int64: in each place one of the tokens possible there; of one single token it is token 0."""
    for shape in ((), (n.B,), (n.B, n.T)):
        logits = tensor(seed, *shape, n.V).argsort(-1) * 60.0
        only = logits.argmin(-1)
        got = [
            learner.sample_next_token(torch.full_like(logits, -INF).scatter(-1, only[..., None], 1.5)),
            learner.sample_next_token(-logits, temperature=1.5),
            learner.sample_next_token(-logits / 60, 0.8, top_k=1),
            learner.sample_next_token(-logits / 60, top_p=1e-6),
        ]
        for ids in got:
            same(ids, only, "the tensor of ids, where each row has one token that is possible")
    same(learner.sample_next_token(tensor(seed, n.B, 1)), torch.zeros(n.B, dtype=torch.int64), "the tensor of ids of a vocabulary of one token")


def with_generators(sample, logits, seed):
    """Draws with two generators of one seed, one of another seed, and a second draw with the first; the global chance is another each time."""
    first, again, other = (torch.Generator().manual_seed(seed + i) for i in (0, 0, 1))
    found = []
    for i, generator in enumerate((first, again, other, first, again)):
        torch.manual_seed(seed + 40 + i)
        found.append(sample(logits, 1.2, None, 0.95, generator))
    return found


@exercise("sample_next_token", weight=2)
@settings(max_examples=2)
@given(seed=seeds)
def test_the_same_generator_draws_the_same(learner, seed):
    """All chance comes from the generator: one with the same seed gives the same ids, and it moves on from one call to the next."""
    logits = tensor(seed, 40, 9) * 0.3
    found = learner.bring(with_generators)(learner.sample_next_token, logits, seed)
    first, again, other, second, second_again = (drawn(ids, (40,), 9) for ids in found)
    same(again, first, "the tensor of ids from a second generator with the same seed")
    same(second_again, second, "the second draw from a second generator with the same seed")
    holds(not torch.equal(other, first), "a generator with another seed should give other ids; it gave the same 40")
    holds(not torch.equal(second, first), "a second call with the same generator should draw anew; it gave the same 40 ids")


@exercise("sample_next_token")
def test_every_call_draws_anew(learner):
    """Call after call for one distribution (V,) the ids follow its probabilities; without a generator, too, two calls differ."""
    chances, flat = torch.tensor([0.1, 0.2, 0.55, 0.15]), torch.zeros(40, 8)
    ids = drawn(learner.bring(one_by_one)(learner.sample_next_token, chances.log(), 300, 4), (300,), 4)
    once, twice = (learner.sample_next_token(flat) for _ in range(2))
    large = drawn(learner.bring(draws)(learner.sample_next_token, chances.log(), 2000, None), (2000,), 4)
    as_often(ids, chances, "call after call")
    as_often(large, chances, "without a generator")
    holds(not torch.equal(drawn(once, (40,), 8), drawn(twice, (40,), 8)), "two calls without a generator should draw anew; they gave the same 40 ids")


@exercise("sample_next_token")
@settings(max_examples=2)
@given(seed=seeds)
def test_logits_of_any_dtype_give_ids_where_they_are(learner, seed):
    """Logits in float64 and bfloat16 give int64 ids too, and ids are on the device of the logits."""
    logits = (tensor(seed, 3, 7).argsort(-1) * 16.0).bfloat16()
    for kind in (torch.bfloat16, torch.float64):
        got = learner.sample_next_token(logits.to(kind), 0.1), learner.sample_next_token(logits.to(kind), 1.0, 1, 0.5)
        for ids in got:
            same(ids, logits.argmax(-1), f"the tensor of ids for logits in {str(kind).removeprefix('torch.')}")
    follows_its_inputs(learner, logits.argmax(-1), learner.sample_next_token, logits.float())
