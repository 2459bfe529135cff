"""Chapter 15, second part: which drafted tokens stay, and what replaces a refused one.

Draws are tested with `check_frequencies` of distributions.py, which says how its limit is calculated.
"""

import itertools
from collections import Counter

import torch
from backward_laws import on_views
from devices_and_dtypes import check_device_of_result
from distributions import check_frequencies
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, same
from hypothesis import given, settings
from strategies import distinct, seeds, tensor

cubes = distinct("B", "T", V=(5, 8))


def probabilities(seed, *shape, scale=1.5, dtype=torch.float64):
    """Random distributions along the last axis."""
    return tensor(seed, *shape, scale=scale, dtype=torch.float64).softmax(-1).to(dtype)


def one_hot(*tokens, V):
    """A distribution for each token in which only that token is possible, (n, V)."""
    return torch.nn.functional.one_hot(torch.tensor(tokens), V).double()


# ---- residual_distribution


@exercise("residual_distribution", weight=4)
@given(n=cubes, seed=seeds)
def test_the_residual_is_what_is_missing_normalised(learner, reference, n, seed):
    """Where the target is above the draft the residual has their difference, elsewhere 0, and each distribution sums to one: (..., V) -> (..., V)."""
    for shape in ((n.V,), (n.B, n.V), (n.B, n.T, n.V)):
        target, draft = probabilities(seed, *shape), probabilities(seed + 1, *shape)
        close(learner.residual_distribution(target, draft), reference.residual_distribution(target, draft), "the residual distribution", tol=1e-9)
    views = learner.bring(on_views)(learner.residual_distribution, target, draft)
    close(views, reference.residual_distribution(target, draft), "the residual distribution of tensors that are not contiguous", tol=1e-9)


@exercise("residual_distribution", weight=3)
@settings(max_examples=3)
@given(n=cubes, seed=seeds)
def test_kept_and_replaced_tokens_together_are_the_target(learner, n, seed):
    """A token is drafted and kept with probability min(draft, target); the rest of the probability, times the residual, completes the target exactly."""
    target, draft = probabilities(seed, n.B, n.V), probabilities(seed + 1, n.B, n.V)
    residual = learner.residual_distribution(target, draft)
    kept = draft * (target / draft).clamp(max=1)
    holds(isinstance(residual, torch.Tensor), f"residual_distribution should return a tensor; it returned a {type(residual).__name__}")
    close(kept + (1 - kept.sum(-1, keepdim=True)) * residual, target, "the tensor of kept + refused * residual", tol=1e-9)


@exercise("residual_distribution", weight=3)
@settings(max_examples=2)
@given(n=cubes, seed=seeds)
def test_equal_distributions_leave_the_target(learner, reference, n, seed):
    """Where target and draft are equal the residual is the target; other rows of the same tensors are not affected, and nothing is NaN."""
    target, draft = probabilities(seed, n.T, n.V), probabilities(seed + 1, n.T, n.V)
    draft[0] = target[0]
    sure = one_hot(2, 2, 4, V=n.V), one_hot(2, 1, 0, V=n.V)
    one, some, certain = learner.residual_distribution(target[0], target[0]), learner.residual_distribution(target, draft), learner.residual_distribution(*sure)
    close(one, target[0], "the residual of two equal distributions", tol=1e-9)
    close(some, reference.residual_distribution(target, draft), "the residual distributions, of which the first is that of two equal ones", tol=1e-9)
    close(certain, sure[0], "the residual of distributions with one possible token", tol=1e-9)


@exercise("residual_distribution", weight=2)
@settings(max_examples=3)
@given(n=cubes, seed=seeds)
def test_a_small_difference_is_normalised_too(learner, n, seed):
    """However small the difference is, the residual sums to one: if the draft is nearly the target, only the tokens that it proposes too rarely are left."""
    target = probabilities(seed, n.B, n.V, scale=0.3)
    draft, small = target.clone(), 1e-7
    draft[:, 0], draft[:, 3], draft[:, 1] = draft[:, 0] + 4 * small, draft[:, 3] - small, draft[:, 1] - 3 * small
    expected = torch.zeros_like(target)
    expected[:, 3], expected[:, 1] = 0.25, 0.75
    got = learner.residual_distribution(target, draft)
    close(got, expected, "the residual where the draft differs from the target by less than a millionth", tol=1e-5)


@exercise("residual_distribution")
@settings(max_examples=2)
@given(n=cubes, seed=seeds)
def test_the_residual_keeps_dtype_and_device(learner, reference, n, seed):
    """The residual has the dtype of the target and is on its device."""
    target, draft = (probabilities(seed + i, n.B, n.V, dtype=torch.float32) for i in (0, 1))
    close(learner.residual_distribution(target, draft), reference.residual_distribution(target, draft), "the residual distribution in float32")
    check_device_of_result(learner, target, learner.residual_distribution, target, draft)


# ---- accept_drafts


def accepted(accept, target, draft, drafted, seeds):
    """What `accept` gives with a generator for each of these seeds; brought to the far side. The rows are views, which are not contiguous."""
    target, draft = (rows.T.contiguous().T for rows in (target, draft))
    return [accept(target, draft, drafted, torch.Generator().manual_seed(seed)) for seed in seeds]


@exercise("accept_drafts", weight=3)
@settings(max_examples=2)
@given(V=distinct(V=(5, 7)), seed=seeds)
def test_a_perfect_draft_is_never_refused(learner, V, seed):
    """If the draft's distributions are the target's, every drafted token stays, and one more token follows: the last row of the target decides it."""
    target, last = probabilities(seed, 4, V.V), seed % V.V
    target[3] = one_hot(last, V=V.V)[0]
    drafted = [(seed + 3 * i) % V.V for i in range(3)]
    target[0, drafted[0]] = 1e-3  # the draft proposed an unlikely token
    target[0] /= target[0].sum()
    found = learner.bring(accepted)(learner.accept_drafts, target, target[:3].clone(), drafted, list(range(25)))
    for got in found:
        same(got, [*drafted, last], f"the list of ids after the drafted ids {drafted}, all with target = draft,")


@exercise("accept_drafts", weight=3)
def test_a_token_that_the_target_prefers_always_stays(learner):
    """A drafted token stays if the target gives it at least the draft's probability: min(1, target / draft) is 1."""
    target = torch.tensor([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7], [0.0, 1.0, 0.0]], dtype=torch.float64)
    draft = torch.tensor([[0.2, 0.5, 0.3], [0.3, 0.3, 0.4]], dtype=torch.float64)
    for got in learner.bring(accepted)(learner.accept_drafts, target, draft, [0, 2], list(range(25))):
        same(got, [0, 2, 1], "the list of ids where the target prefers both drafted tokens")


@exercise("accept_drafts", weight=4)
def test_the_first_refusal_ends_the_list(learner):
    """A token that is impossible for the target is refused and replaced by a token of its row's residual; later drafted tokens are not considered."""
    target = torch.tensor([[0.4, 0.1, 0.1, 0.4], [0.2, 0.0, 0.3, 0.5], [0.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    draft = torch.tensor([[0.1, 0.3, 0.3, 0.3], [0.2, 0.3, 0.0, 0.5], [0.1, 0.1, 0.5, 0.3]], dtype=torch.float64)
    ask, twenty = learner.bring(accepted), list(range(20))
    cases = {"the second": (draft, [0, 1, 2], [0, 2]), "the third": (draft, [0, 0, 3], [0, 0, 2]), "the only one": (draft[1:2], [1], [2])}
    of_one = torch.stack([target[1], target[3]])
    found = {which: ask(learner.accept_drafts, of_one if len(ids) == 1 else target, rows, ids, twenty) for which, (rows, ids, _) in cases.items()}
    for which, (_, ids, expected) in cases.items():
        for got in found[which]:
            same(got, expected, f"the list of ids for the drafted ids {ids}, of which {which} is impossible for the target,")


@exercise("accept_drafts", weight=2)
def test_without_drafts_the_target_writes_one_token(learner):
    """n may be 0: then one token is drawn from the only row of the target."""
    chances = torch.tensor([[0.15, 0.5, 0.05, 0.3]], dtype=torch.float64)
    draws = learner.bring(accepted)(learner.accept_drafts, chances, chances[:0], [], list(range(400)))
    same([len(got) for got in draws[:5]], 5 * [1], "the list of the lengths of the lists for no drafted id")
    check_frequencies(Counter(got[0] for got in draws), dict(enumerate(chances[0].tolist())), "without drafted ids, the token")


def lists_counted(accept, target, draft, n_draws, seed):
    """How often each list comes out, as [list, count]: ids drawn from the draft's rows, and `accept` on them; brought to the far side."""
    ids = torch.Generator().manual_seed(seed)
    drafted = torch.multinomial(draft, n_draws, replacement=True, generator=ids).T.tolist()
    generator, counts = torch.Generator().manual_seed(seed + 1), {}
    for row in drafted:
        got = tuple(int(token) for token in accept(target, draft, row, generator))
        counts[got] = counts.get(got, 0) + 1
    return [[list(got), count] for got, count in counts.items()]


def distribution_of_lists(target, draft):
    """The probability of each list that accept_drafts can give, where the drafted ids come from the draft's rows: by enumeration."""
    V, n = target.size(1), len(draft)
    keep = torch.minimum(target[:n], draft)  # drafted and kept
    missing = (target[:n] - draft).clamp(min=0)  # refused, and replaced by this token
    chances = {}
    for length in range(n + 1):
        rows = [*keep[:length], missing[length] if length < n else target[n]]
        for text in itertools.product(range(V), repeat=length + 1):
            chance = 1.0
            for row, token in zip(rows, text):
                chance *= float(row[token])
            chances[text] = chances.get(text, 0.0) + chance
    return chances


def summed(numbers, key):
    """The sum of the numbers of all lists with the same key."""
    sums = Counter()
    for ids, number in numbers.items():
        sums[key(ids)] += number
    return sums


def first_id(ids):
    return ids[0] if ids else None


def length_and_last(ids):
    """The places where lists differ most with a wrong rule."""
    return len(ids), ids[-1] if ids else None


# Chosen so that wrong rules show in few draws: where the draft knows nothing of the target, and both rows refuse differently.
TARGET = torch.tensor([[0.45, 0.2, 0.35], [0.1, 0.65, 0.25], [0.05, 0.2, 0.75]], dtype=torch.float64)
DRAFT = torch.tensor([[0.05, 0.1, 0.85], [0.3, 0.05, 0.65]], dtype=torch.float64)


@exercise("accept_drafts", weight=5)
def test_lists_come_out_as_often_as_they_should(learner):
    """Each list of ids has the probability that the rule gives it, calculated by enumeration, and the first id is distributed as the target's first row."""
    counted = learner.bring(lists_counted)(learner.accept_drafts, TARGET, DRAFT, 1800, 8)
    counts, chances = {tuple(ids): count for ids, count in counted}, distribution_of_lists(TARGET, DRAFT)
    check_frequencies(summed(counts, first_id), dict(enumerate(TARGET[0].tolist())), "the first id of the list")
    check_frequencies(counts, chances, "the list")
    check_frequencies(summed(counts, length_and_last), summed(chances, length_and_last), "the length and the last id of the list,")


def with_generators(accept, target, draft, drafted, seed):
    """Lists with two generators of one seed, of another seed, second lists with the first two, and twice without one; torch's seed differs each time."""
    first, again, other = (torch.Generator().manual_seed(seed + i) for i in (0, 0, 1))
    found = []
    for i, generator in enumerate((first, again, other, first, again, None, None)):
        torch.manual_seed(seed + 40 + i)
        found.append([accept(target, draft, drafted, generator) for _ in range(12)])
    return found


@exercise("accept_drafts", weight=2)
@settings(max_examples=2)
@given(seed=seeds)
def test_all_randomness_comes_from_the_generator(learner, seed):
    """A generator with the same seed gives the same lists, whatever torch's global seed is; its state changes with each call."""
    target, draft = probabilities(seed, 3, 9, scale=0.5), probabilities(seed + 1, 2, 9, scale=0.5)
    first, again, other, second, second_again, *without = learner.bring(with_generators)(learner.accept_drafts, target, draft, [4, 2], seed)
    same(again, first, "the lists with a second generator of the same seed")
    same(second_again, second, "the second lists with a second generator of the same seed")
    distinct_ids = {token for ids in first for token in ids}
    holds(len(distinct_ids) > 2, f"12 lists with near-uniform distributions should have many different ids; they have only {sorted(distinct_ids)}")
    holds(other != first, "a generator with another seed should give other lists; it gave the same 12")
    holds(second != first, "more calls with the same generator should draw new numbers; they gave the same 12 lists")
    holds(without[0] != without[1], "without a generator each call should draw new numbers; with two seeds of torch there were the same 12 lists")
