"""Chapter 23: how good a dictionary is, which of its features are dead, and what the others react to."""

from __future__ import annotations

import torch
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, shaped
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_layouts import of_views
from strategies import distinct, seeds, tensor, token_ids

few = settings(max_examples=2)
states_of_texts = distinct("B", "T", "D", B=(2, 4), T=(5, 7), D=(8, 10))


# ---- explained_variance


def states_and_reconstruction(n, seed, dtype=torch.float32):
    """States around a mean that is not 0, with features of different spreads; and a reconstruction with errors, which are not 0 on average."""
    mean, spread = tensor(seed + 1, n.D, dtype=torch.float64), torch.linspace(0.3, 3.0, n.D, dtype=torch.float64)
    x = 2 * mean + spread * tensor(seed, n.B, n.T, n.D, dtype=torch.float64)
    return x.to(dtype), (x + 0.4 * tensor(seed + 2, n.B, n.T, n.D, dtype=torch.float64) + 0.3).to(dtype)


def explained(x, reconstruction):
    """By the definition."""
    x, reconstruction = (part.double().reshape(-1, part.size(-1)) for part in (x, reconstruction))
    return float(1 - (x - reconstruction).square().sum() / (x - x.mean(0)).square().sum())


@exercise("explained_variance", weight=3)
@few
@given(n=states_of_texts, seed=seeds)
def test_the_share_of_the_squared_deviations(learner, n, seed):
    """1 minus all squared errors over all squared deviations from the mean state, for (N, D) and (B, T, D): the mean is over all states, one number for each feature."""
    x, guess = states_and_reconstruction(n, seed)
    cases = {"(B, T, D)": (x, guess), "(N, D)": (x[0].clone(), guess[0].clone()), "(2, B, T, D)": (torch.stack([x, x + 1]), torch.stack([guess, guess]))}
    got = {shape: learner.explained_variance(*pair) for shape, pair in cases.items()}
    for shape, pair in cases.items():
        close(got[shape], explained(*pair), f"the share for states of shape {shape}")


@exercise("explained_variance", weight=3)
@few
@given(n=states_of_texts, seed=seeds)
def test_the_mean_state_explains_nothing(learner, n, seed):
    """The states themselves have 1, the mean state has 0, and a reconstruction that is worse than it is below 0."""
    x, _ = states_and_reconstruction(n, seed)
    mean = x.flatten(0, 1).mean(0).expand_as(x)
    worse, halfway = 2 * mean - x, (x + mean) / 2
    got = [learner.explained_variance(x, guess) for guess in (x.clone(), mean, worse, halfway)]
    for share, right, what in zip(got, (1.0, 0.0, -3.0, 0.75), ("the states themselves", "the mean state", "the states mirrored at their mean", "states halfway to their mean")):
        close(share, right, f"the share for {what}", tol=1e-4)


@exercise("explained_variance", weight=2)
@few
@given(n=states_of_texts, seed=seeds)
def test_a_constant_error_counts(learner, n, seed):
    """A reconstruction that is off by the same vector in every state has errors too; which argument is which matters."""
    x, guess = states_and_reconstruction(n, seed)
    off = x + torch.linspace(-1, 2, n.D)
    got, exchanged = learner.explained_variance(x, off), learner.explained_variance(guess * 2, x)
    close(got, explained(x, off), "the share for a reconstruction that is off by one vector")
    close(exchanged, explained(guess * 2, x), "the share where the reconstruction varies less than the states")


@exercise("explained_variance", weight=2)
@few
@given(n=states_of_texts, seed=seeds)
def test_a_share_is_a_float_with_the_digits_of_its_states(learner, n, seed):
    """The result is a plain float; float64 states keep their digits, small states count like large ones, and states may be views."""
    x, guess = states_and_reconstruction(n, seed, torch.float64)
    got, small = learner.explained_variance(x, guess), learner.explained_variance(x * 1e-4, guess * 1e-4)
    view = learner.bring(of_views)(learner.explained_variance, x, guess)
    learns = learner.bring(with_gradient)(learner.explained_variance, x, guess)
    for share, what in ((got, "float64 states"), (small, "float64 states around 0.0001"), (view, "states that are a view"), (learns, "a reconstruction with a graph")):
        close(share, explained(x, guess), f"the share for {what}", tol=1e-10)
        holds(isinstance(share, float), f"a share should be a plain float; for {what} it is a {type(share).__name__}")


def with_gradient(explained_variance, x, reconstruction):
    return explained_variance(x, reconstruction.clone().requires_grad_())


@exercise("explained_variance", weight=2)
def test_states_must_differ_and_shapes_must_agree(learner):
    """Different shapes raise a ValueError, also where one could be broadcast; equal states, or a single one, raise one that names x."""
    x = tensor(3, 4, 6)
    got = learner.explained_variance(x, x * 0.5)
    for wrong in (x[:1].clone(), x[0].clone(), x[:, :1].clone(), x[None]):
        refuses(lambda wrong=wrong: learner.explained_variance(x, wrong), because=f"states of shape (4, 6) have no reconstruction of shape {tuple(wrong.shape)}")
    for states, what in ((torch.full((4, 6), 2.0), "all states are equal"), (torch.arange(6.0).expand(2, 4, 6).clone(), "all states are equal"), (x[:1].clone(), "there is one state only"), (x[0].clone(), "there is one state only")):
        refuses(lambda states=states: learner.explained_variance(states, states + 1), naming=("x",), because=f"{what}, so x has no variance to explain")
    close(got, explained(x, x * 0.5), "the share for half of each state")


# ---- dead_features


@exercise("dead_features", weight=3)
@few
@given(n=distinct("N", "F", N=(8, 12), F=(14, 18)), seed=seeds)
def test_a_feature_is_dead_if_no_recent_state_has_it(learner, n, seed):
    """True for a feature that was not above 0 in any of the last `window` states, whatever was before; False for one that was, even once."""
    features = (tensor(seed, n.N, n.F) - 1.0).clamp(min=0)
    got = {window: learner.dead_features(features, window) for window in (1, 3, n.N - 1, n.N)}
    for window, dead in got.items():
        expected = torch.tensor([all(float(row[f]) <= 0 for row in features[n.N - window :]) for f in range(n.F)])
        close(shaped(dead, (n.F,), f"the result with window = {window}", torch.bool), expected, f"which features are dead with window = {window}")


@exercise("dead_features", weight=2)
def test_the_window_is_at_the_end(learner):
    """Of 5 states, the last 2 count with window = 2: a feature that was active only in the third-last is dead, and one in the second-last is not."""
    features = torch.eye(5)[:, [0, 1, 2, 3, 4, 4]].contiguous()
    features[:, 5] = 0.0
    got = [learner.dead_features(features, window) for window in (2, 5)]
    close(got[0], torch.tensor([True, True, True, False, False, True]), "which features are dead with window = 2")
    close(got[1], torch.tensor([False, False, False, False, False, True]), "which features are dead with window = 5")


@exercise("dead_features", weight=2)
def test_small_activations_count_and_negative_ones_do_not(learner):
    """A tiny activation is above 0; a negative one is not, and does not cancel a positive one."""
    features = torch.tensor([[1e-30, -2.0, 3.0, -1.0, 0.0], [0.0, -1e-6, -5.0, 1.0, 0.0]])
    got, double = learner.dead_features(features, 2), learner.dead_features(features.double() * 1e-100, 2)
    close(got, torch.tensor([False, True, False, False, True]), "which features are dead")
    close(double, torch.tensor([False, True, False, False, True]), "which features are dead, where float64 activations are tiny")


@exercise("dead_features")
@few
@given(n=distinct("N", "F", N=(8, 12), F=(14, 18)), seed=seeds)
def test_features_may_be_a_view(learner, n, seed):
    """Activations may be a view, have a graph, or be those of one feature."""
    features = (tensor(seed, n.N, n.F) - 1.0).clamp(min=0)
    view = learner.bring(of_views)(learner.dead_features, features, 3)
    learns, single = learner.bring(of_features_with_graph)(learner.dead_features, features, 3), learner.dead_features(features[:, :1].clone(), 3)
    expected = (features[-3:] <= 0).all(0)
    close(view, expected, "which features are dead, of a view")
    close(learns, expected, "which features are dead, of activations with a graph")
    close(single, expected[:1], "whether the only feature is dead")


def of_features_with_graph(dead_features, features, window):
    return dead_features(features.clone().requires_grad_() * 1.0, window)


@exercise("dead_features", weight=2)
def test_the_window_is_from_1_to_the_number_of_states(learner):
    """A window below 1 or above N raises a ValueError that names window."""
    features = torch.eye(4)
    got = learner.dead_features(features, 4), learner.dead_features(features, 1)
    for window in (0, -2, 5):
        refuses(lambda window=window: learner.dead_features(features, window), naming=("window",), because=f"the last {window} of 4 states cannot be looked at")
    close(got[0], torch.zeros(4, dtype=torch.bool), "which features are dead with window = 4")
    close(got[1], torch.tensor([True, True, True, False]), "which features are dead with window = 1")


# ---- top_contexts


def contexts(features, ids, n, before, after):
    """By the definition."""
    found = []
    for row, tokens in zip(features.tolist(), ids.tolist()):
        place = max(range(len(row)), key=lambda t: (row[t], -t))
        if row[place] > 0:
            start = max(place - before, 0)
            found.append((row[place], tokens[start : place + after + 1], place - start))
    return sorted(found, key=lambda context: -context[0])[:n]


def compare_contexts(got, expected, when=""):
    """The same contexts in the same order."""
    holds(isinstance(got, list), f"the result{when} should be a list of contexts")
    holds(len(got) == len(expected), f"there should be {len(expected)} contexts{when}; there are {len(got)}")
    for number, right in enumerate(expected):
        close(got[number], right, f"context {number}{when}")


def activations(seed, B, T):
    """Of a feature that is 0 at most tokens, and in no text always."""
    return (tensor(seed, B, T) + 0.2).clamp(min=0)


@exercise("top_contexts", weight=3)
@few
@given(n=distinct("B", "T", B=(5, 7), T=(9, 12)), seed=seeds)
def test_the_strongest_texts_come_first(learner, n, seed):
    """A context for each text at its largest activation, the strongest first, and at most n of them, also if there are more texts or fewer."""
    features, ids = activations(seed, n.B, n.T), token_ids(seed, n.B, n.T, vocab=90)
    got = {count: learner.top_contexts(features, ids, count, 2, 1) for count in (1, 3, n.B, n.B + 4)}
    for count, result in got.items():
        compare_contexts(result, contexts(features, ids, count, 2, 1), f" with n = {count}")


@exercise("top_contexts", weight=3)
@few
@given(before=st.integers(0, 3), after=st.integers(0, 3), seed=seeds)
def test_tokens_before_and_after_are_of_the_same_text(learner, before, after, seed):
    """At most `before` tokens before it and `after` after it; at the beginning and the end of a text there are fewer, and `place` says where the strongest token is."""
    features, ids = torch.full((6, 6), 0.1), token_ids(seed, 6, 6, vocab=90)
    features[range(6), range(6)] = torch.tensor([3.0, 8.0, 5.0, 4.0, 7.0, 6.0])
    got, wide = learner.top_contexts(features, ids, 6, before, after), learner.top_contexts(features, ids, 6, 9, 9)
    none = learner.top_contexts(features, ids, 6, 0, 0)
    compare_contexts(got, contexts(features, ids, 6, before, after), f" with before = {before} and after = {after}")
    compare_contexts(wide, contexts(features, ids, 6, 9, 9), " with before = 9 and after = 9, longer than a text")
    compare_contexts(none, contexts(features, ids, 6, 0, 0), " with before = 0 and after = 0")


@exercise("top_contexts", weight=2)
def test_one_context_a_text(learner):
    """A text with several strong tokens gives one context, at the largest activation, and at the first of equal ones."""
    features = torch.tensor([[0.0, 9.0, 8.0, 7.0, 9.0], [1.0, 0.0, 2.0, 0.0, 2.0], [0.5, 0.5, 0.5, 0.5, 0.5]])
    ids = torch.arange(15).view(3, 5)
    got = learner.top_contexts(features, ids, 5, 1, 1)
    compare_contexts(got, [(9.0, [0, 1, 2], 1), (2.0, [6, 7, 8], 1), (0.5, [10, 11], 0)], " of three texts, with several strong tokens each")


@exercise("top_contexts", weight=2)
def test_equal_activations_keep_the_order_of_the_texts(learner):
    """Of texts with the same largest activation, the earlier one comes first, whatever its tokens are and wherever it is largest."""
    features = torch.tensor([[0.0, 2.0, 0.0], [4.0, 0.0, 0.0], [0.0, 0.0, 2.0], [2.0, 1.0, 0.0], [0.0, 4.0, 0.0]])
    ids = torch.tensor([[5, 6, 7], [50, 51, 52], [1, 2, 3], [90, 91, 92], [10, 11, 12]])
    got, cut = learner.top_contexts(features, ids, 5, 1, 0), learner.top_contexts(features, ids, 3, 1, 0)
    right = [(4.0, [50], 0), (4.0, [10, 11], 1), (2.0, [5, 6], 1), (2.0, [2, 3], 1), (2.0, [90], 0)]
    compare_contexts(got, right, " of five texts, with equal activations")
    compare_contexts(cut, right[:3], " of five texts, with equal activations, with n = 3")


@exercise("top_contexts", weight=2)
def test_texts_without_activation_give_no_context(learner):
    """A text whose activations are 0 or below gives no context, so there may be fewer than n, or none; tiny activations count."""
    features = torch.tensor([[0.0, 0.0, 0.0], [-3.0, -1.0, -2.0], [0.0, 1e-6, 0.0], [-5.0, 0.0, 2.0]])
    ids = torch.arange(12).view(4, 3)
    got, none = learner.top_contexts(features, ids, 4, 1, 1), learner.top_contexts(features[:2].clone(), ids[:2].clone(), 4, 1, 1)
    compare_contexts(got, [(2.0, [10, 11], 1), (features[2, 1].item(), [6, 7, 8], 1)], " of four texts, two of which have an activation")
    compare_contexts(none, [], " of texts without an activation")


@exercise("top_contexts")
@few
@given(seed=seeds)
def test_contexts_are_plain_numbers(learner, seed):
    """An activation is a float, with all digits of float64, and tokens and place are ints; activations and ids may be views, and activations may have a graph."""
    features, ids = activations(seed, 5, 7).double(), token_ids(seed, 5, 7, vocab=90)
    features = features + (features > 0) * 1e-9 * tensor(seed + 1, 5, 7, dtype=torch.float64)
    got, learns = learner.bring(types_of)(learner.top_contexts, features, ids), learner.bring(types_of)(learner.top_contexts, features, ids, True)
    view = learner.bring(of_views)(learner.top_contexts, features, ids, 5, 2, 2)
    expected = contexts(features, ids, 5, 2, 2)
    for (result, kinds), when in ((got, ""), (learns, " of activations with a graph")):
        compare_contexts(result, expected, when)
        holds(kinds == [["float", "int", "int"]] * len(expected), f"a context{when} should have a float, a list of ints and an int; there are {sorted({', '.join(kind) for kind in kinds})}")
        for context, right in zip(result, expected):
            close(context[0], right[0], f"the activation of a context{when}", tol=1e-13)
    compare_contexts(view, expected, " of a view")


def types_of(top_contexts, features, ids, learns=False):
    """The contexts, and the types in each."""
    found = top_contexts(features.clone().requires_grad_(learns), ids, 5, 2, 2)
    kinds = [[type(activation).__name__, type(tokens[0]).__name__, type(place).__name__] for activation, tokens, place in found]
    return found, kinds
