"""Chapter 9, second part: drawing one token.

Sampling is tested by frequencies. Suppose a token of probability q is drawn f * n times out of n. By Chernoff's bound, a share as far from q
as f has a probability below 2 exp(-n KL(f, q)). One run makes fewer than 100 comparisons, and each allows n KL up to 20. So a correct
implementation, whatever its way of drawing, fails in less than 100 * 2 exp(-20) of all runs, which is five in ten million.
"""

import math

import torch
from devices_and_dtypes import check_device_of_result
from distributions import logits_of
from grader.runner.marks import exercise
from grader.verdict.comparing import holds, same, shaped
from hypothesis import given, settings
from memory_layouts import of_view
from strategies import distinct, seeds, tensor

INF = math.inf
LUCK = 20.0
cubes = distinct("B", "T", V=(8, 11))


def draws(sample, logits, n, seed, temperature=1.0, top_k=None, top_p=None):
    """n independent draws from each distribution of `logits`, in one call: (n, ...); brought to the far side."""
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    return sample(logits.repeat(n, *[1] * logits.dim()), temperature, top_k, top_p, generator)


def draws_plainly(sample, logits, n, seed):
    """n draws in one call without temperature and filters; brought to the far side."""
    return sample(logits.repeat(n, 1), generator=torch.Generator().manual_seed(seed))


def one_by_one(sample, logits, n, seed):
    """n calls with one generator, which is never reset; brought to the far side."""
    generator = torch.Generator().manual_seed(seed)
    return torch.stack([sample(logits, generator=generator) for _ in range(n)])


def as_often(ids, probabilities, what):
    """Ids (n,) are drawn as often as their probabilities (V,) say; see the top of this file."""
    counts = torch.bincount(ids, minlength=len(probabilities)).tolist()
    holds(len(counts) == len(probabilities), f"{what}, id {int(ids.max())} was drawn from a vocabulary of {len(probabilities)}")
    for token, (count, q) in enumerate(zip(counts, probabilities.double().tolist())):
        f = count / len(ids)
        strays = sum(a * math.log(a / b) if b > 0 else INF for a, b in ((f, q), (1 - f, 1 - q)) if a > 0)
        holds(len(ids) * strays < LUCK, f"{what}, token {token} should have probability {q:.3f}; it was drawn {count} times out of {len(ids)}")


def drawn(got, shape, vocab):
    """Ids of this shape, each in the vocabulary."""
    ids = shaped(got, shape, "the tensor of ids", torch.int64)
    holds(bool(((ids >= 0) & (ids < vocab)).all()), f"ids should be from 0 to {vocab - 1}; they are from {int(ids.min())} to {int(ids.max())}")
    return ids


@exercise("sample_next_token", weight=2)
@settings(max_examples=3)
@given(n=cubes, seed=seeds)
def test_temperature_zero_takes_the_likeliest(learner, n, seed):
    """With temperature 0 the id is the index of each distribution's greatest logit, however close the others are, with any filters and in every call."""
    near = tensor(seed, n.T, n.V, dtype=torch.float64)
    closest = {"equal to 29 digits": near.float() * 1e-30, "equal in float32": 1 + near * 1e-12}
    found = {name: [learner.sample_next_token(logits, temperature=0), learner.sample_next_token(logits, 0.0, 3, 0.9)] for name, logits in closest.items()}
    for shape in ((n.V,), (n.B, n.V), (n.B, n.T, n.V)):
        logits = tensor(seed, *shape, scale=2.0)
        got = [learner.sample_next_token(logits, temperature=0), learner.sample_next_token(logits, 0.0, top_k=3, top_p=0.9)]
        got.append(learner.sample_next_token(logits, 0.0, 1))
        for ids in got:
            same(ids, logits.argmax(-1), "the tensor of ids at temperature 0")
    for name, logits in closest.items():
        for ids in found[name]:
            same(ids, logits.argmax(-1), f"the tensor of ids at temperature 0, of logits that are {name},")


@exercise("sample_next_token", weight=3)
def test_tokens_are_drawn_with_their_probabilities(learner):
    """Each row draws from the softmax of its own logits, and independently of the other rows."""
    chances = torch.tensor([[0.1, 0.45, 0.05, 0.25, 0.15], [0.3, 0.05, 0.4, 0.05, 0.2]])
    ids = drawn(learner.bring(draws)(learner.sample_next_token, chances.log() + 3.0, 2000, 11), (2000, 2), 5)
    as_often(ids[:, 0], chances[0], "in the first of two rows")
    as_often(ids[:, 1], chances[1], "in the second of two rows")
    as_often(ids[:, 0] * 5 + ids[:, 1], torch.outer(chances[0], chances[1]).flatten(), "of the 25 pairs that two rows can make")


@exercise("sample_next_token", weight=2)
def test_a_temperature_changes_the_frequencies(learner):
    """The logits are divided by the temperature before softmax: below 1 likely tokens are drawn more often, above 1 less often. The default is 1."""
    logits = logits_of(0.15, 0.5, 0.05, 0.3)
    found = {t: learner.bring(draws)(learner.sample_next_token, logits, 3000, 5, t) for t in (0.5, 2.0)}
    cold = learner.bring(draws)(learner.sample_next_token, logits / 1000, 3000, 8, 0.001)
    plain = learner.bring(draws_plainly)(learner.sample_next_token, logits, 3000, 5)
    for temperature, ids in found.items():
        as_often(drawn(ids, (3000,), 4), torch.softmax(logits / temperature, -1), f"at temperature {temperature}")
    as_often(drawn(cold, (3000,), 4), torch.softmax(logits, -1), "at temperature 0.001, of logits that are close to each other")
    as_often(drawn(plain, (3000,), 4), torch.softmax(logits, -1), "where no temperature is given")


@exercise("sample_next_token", weight=2)
def test_filtered_tokens_are_never_drawn(learner):
    """top_k, top_p and logits of -inf leave some tokens; these are drawn with their probabilities, normalised to sum to one."""
    logits = logits_of(0.16, 0.3, 0.0, 0.25, 0.04, 0.2, 0.05)
    cases = {"top_k = 3": (3, None, [1, 3, 5]), "top_p = 0.85": (None, 0.85, [0, 1, 3, 5]), "no filter": (None, None, [0, 1, 3, 4, 5, 6])}
    found = {name: learner.bring(draws)(learner.sample_next_token, logits, 3000, 6, 1.0, k, p) for name, (k, p, _) in cases.items()}
    for name, (_, _, stays) in cases.items():
        left = torch.zeros(7).index_fill(0, torch.tensor(stays), 1.0) * logits.exp()
        as_often(drawn(found[name], (3000,), 7), left / left.sum(), f"with {name}")


@exercise("sample_next_token", weight=3)
def test_temperature_comes_before_k_and_k_before_p(learner):
    """The nucleus is computed from the probabilities after the temperature, and from the tokens that top_k leaves."""
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
    """Logits (..., V) give ids (...), int64, each a token that is possible in its row; if V = 1 it is token 0."""
    for shape in ((), (n.B,), (n.B, n.T)):
        logits = tensor(seed, *shape, n.V).argsort(-1) * 60.0
        only = logits.argmin(-1)
        got = [
            learner.sample_next_token(torch.full_like(logits, -INF).scatter(-1, only[..., None], 1.5)),
            learner.sample_next_token(-logits, temperature=1.5),
            learner.sample_next_token(-logits / 60, 0.8, top_k=1),
            learner.sample_next_token(-logits / 60, top_p=1e-6),
        ]
        if len(shape) == 2:
            got += [learner.bring(of_view)(learner.sample_next_token, -logits, *options) for options in ((1.5,), (0,), (0.8, 1), (1.0, None, 1e-6))]
        for ids in got:
            same(ids, only, "the tensor of ids, where each row has one token that is possible")
    same(learner.sample_next_token(tensor(seed, n.B, 1)), torch.zeros(n.B, dtype=torch.int64), "the tensor of ids of a vocabulary of one token")


def with_generators(sample, logits, seed):
    """Draws with two generators of one seed, one of another seed, and a second draw with the first; torch's global seed differs each time."""
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
    """All random numbers come from the generator: one with the same seed gives the same ids, and its state changes with each call."""
    logits = tensor(seed, 40, 9) * 0.3
    found = learner.bring(with_generators)(learner.sample_next_token, logits, seed)
    first, again, other, second, second_again = (drawn(ids, (40,), 9) for ids in found)
    same(again, first, "the tensor of ids from a second generator with the same seed")
    same(second_again, second, "the second draw from a second generator with the same seed")
    holds(not torch.equal(other, first), "a generator with another seed should give other ids; it gave the same 40")
    holds(not torch.equal(second, first), "a second call with the same generator should draw new numbers; it gave the same 40 ids")


@exercise("sample_next_token")
def test_every_call_draws_again(learner):
    """Over many calls for one distribution (V,), the ids follow its probabilities; also without a generator, two calls differ."""
    chances, flat = torch.tensor([0.1, 0.2, 0.55, 0.15]), torch.zeros(40, 8)
    ids = drawn(learner.bring(one_by_one)(learner.sample_next_token, chances.log(), 300, 4), (300,), 4)
    once, twice = (learner.sample_next_token(flat) for _ in range(2))
    large = drawn(learner.bring(draws)(learner.sample_next_token, chances.log(), 2000, None), (2000,), 4)
    as_often(ids, chances, "call after call")
    as_often(large, chances, "without a generator")
    holds(not torch.equal(drawn(once, (40,), 8), drawn(twice, (40,), 8)), "two calls without a generator should draw new numbers; they gave the same 40 ids")


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
    check_device_of_result(learner, logits.argmax(-1), learner.sample_next_token, logits.float())
