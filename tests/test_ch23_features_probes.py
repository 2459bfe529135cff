"""Chapter 23: logistic regression to the end, and its score on states that it has not seen."""

from __future__ import annotations

import torch
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, shaped
from hypothesis import given, settings
from memory_layouts import of_views
from pytest_check import check
from strategies import distinct, seeds, tensor

few = settings(max_examples=2)
one = settings(max_examples=1)  # a call fits many probes
few_states = distinct("N", "D", N=(22, 26), D=(3, 5))


def noisy(seed, N, D, dtype=torch.float64):
    """States, and labels that no line separates: some are those of the other side."""
    x = tensor(seed, N, D, dtype=torch.float64)
    labels = (x @ tensor(seed + 1, D, dtype=torch.float64) > 0.3).long()
    labels[:: N // 3] = 1 - labels[:: N // 3]
    labels[1], labels[2] = 0, 1
    return x.to(dtype), labels


def separable(seed, N, D, dtype=torch.float64):
    """States on both sides of a gap, and labels that say on which."""
    x = tensor(seed, N, D, dtype=torch.float64)
    labels = torch.arange(N) % 2
    x[:, 0] = (2 * labels - 1) * (0.3 + x[:, 0].abs())
    return x.to(dtype), labels


# ---- fit_probe


def compare_probe(got, expected, when=""):
    """Weight and bias have three right digits, of the largest of their numbers."""
    holds(isinstance(got, list | tuple) and len(got) == 2, "the result should be a pair: the weight, and the bias")
    for name, mine, right in zip(("the weight", "the bias"), got, expected):
        largest = max(float(part.abs().max()) for part in expected)
        with check:
            shaped(mine, tuple(right.shape), name + when, right.dtype)
            close(mine, right, name + when, tol=1e-3 * largest / max(float(right.abs().max()), 1e-2))


@exercise("fit_probe", weight=3)
@settings(max_examples=4)
@given(n=few_states, seed=seeds)
def test_the_probe_is_the_minimum_of_loss_and_penalty(learner, reference, n, seed):
    """Weight (D,) and bias () minimise the mean of -log p(label) plus l2/2 · weight · weight; by default l2 is 0.01."""
    states, labels = noisy(seed, n.N, n.D)
    got = {l2: learner.fit_probe(states, labels, l2) for l2 in (0.3, 2.0)}
    default = learner.fit_probe(states, labels)
    for l2, probe in got.items():
        compare_probe(probe, reference.fit_probe(states, labels, l2), f" with l2 = {l2}")
    compare_probe(default, reference.fit_probe(states, labels), " with the default l2")


@exercise("fit_probe", weight=3)
@few
@given(n=few_states, seed=seeds)
def test_separable_classes_have_a_finite_probe(learner, reference, n, seed):
    """Where a line separates the classes, the penalty keeps the weight finite, and a smaller l2 lets it grow; the search does not stop when all states are on the right side."""
    states, labels = separable(seed, n.N, n.D)
    got = {l2: learner.fit_probe(states, labels, l2=l2) for l2 in (1e-2, 1e-3)}
    for l2, probe in got.items():
        compare_probe(probe, reference.fit_probe(states, labels, l2), f" of separable classes with l2 = {l2}")


@exercise("fit_probe", weight=3)
@few
@given(n=distinct("N", "D", N=(8, 10), D=(14, 18)), seed=seeds)
def test_more_features_than_states(learner, reference, n, seed):
    """With more features than states, every labelling is separable; the minimum is still one point, and a few hundred steps of gradient descent do not reach it."""
    states, labels = tensor(seed, n.N, n.D, dtype=torch.float64), torch.arange(n.N) % 3 % 2
    got, small = learner.fit_probe(states, labels), learner.fit_probe(states, labels, 2e-3)
    compare_probe(got, reference.fit_probe(states, labels), f" of {n.N} states with {n.D} features")
    compare_probe(small, reference.fit_probe(states, labels, 2e-3), f" of {n.N} states with {n.D} features and l2 = 0.002")


@exercise("fit_probe", weight=2)
@few
@given(n=few_states, seed=seeds)
def test_features_of_very_different_sizes(learner, reference, n, seed):
    """A feature may be ten times as large as the others, and another a tenth: the penalty is on the weight of each feature as it is."""
    states, labels = noisy(seed, n.N + 20, n.D)
    states[:, 0] *= 10
    states[:, 1] *= 0.1
    compare_probe(learner.fit_probe(states, labels), reference.fit_probe(states, labels), ", where the first feature is large and the second small")


@exercise("fit_probe", weight=2)
@few
@given(n=few_states, seed=seeds)
def test_a_constant_feature_says_nothing(learner, reference, n, seed):
    """A feature that is 0 or 1 in every state gets the weight 0: what it could say is in the bias, which costs nothing."""
    states, labels = noisy(seed, n.N, n.D)
    ones = torch.ones(n.N, 1, dtype=torch.float64)
    given_states = {constant: torch.cat([states, constant * ones], dim=1) for constant in (0, 1)}
    got = {constant: learner.fit_probe(x, labels) for constant, x in given_states.items()}
    for constant, x in given_states.items():
        compare_probe(got[constant], reference.fit_probe(x, labels), f" of states whose last feature is always {constant}")


@exercise("fit_probe", weight=2)
@few
@given(n=few_states, seed=seeds)
def test_the_bias_is_free(learner, reference, n, seed):
    """A number that is added to all states changes only the bias, by as much as keeps every probability, because the bias is not penalised."""
    states, labels = noisy(seed, n.N, n.D)
    move = torch.linspace(-1, 1, n.D, dtype=torch.float64)
    got, moved = learner.fit_probe(states, labels, 0.5), learner.fit_probe(states + move, labels, 0.5)
    weight, bias = reference.fit_probe(states, labels, 0.5)
    compare_probe(got, (weight, bias), " with l2 = 0.5")
    compare_probe(moved, (weight, bias - move @ weight), " of states to which a vector was added, with l2 = 0.5")


@exercise("fit_probe", weight=2)
@few
@given(n=few_states, seed=seeds)
def test_one_state_of_a_class_is_enough(learner, reference, n, seed):
    """One state may be alone in its class, whichever class it is; every state counts the same, so the probe leans to the larger class."""
    states, alone = tensor(seed, n.N, n.D, dtype=torch.float64), torch.arange(n.N) == seed % n.N
    got = [learner.fit_probe(states, labels.long(), 0.02) for labels in (alone, ~alone)]
    for probe, labels, kind in zip(got, (alone, ~alone), (1, 0)):
        compare_probe(probe, reference.fit_probe(states, labels.long(), 0.02), f", where one state has label {kind}")


@exercise("fit_probe", weight=2)
@few
@given(n=few_states, seed=seeds)
def test_repeated_states_do_not_change_the_probe(learner, reference, n, seed):
    """The loss is a mean: with every state three times, and in another order, the probe is the same. Exchanged labels turn the signs of weight and bias."""
    states, labels = noisy(seed, n.N, n.D)
    order = torch.randperm(3 * n.N, generator=torch.Generator().manual_seed(seed))
    thrice = learner.fit_probe(states.repeat(3, 1)[order], labels.repeat(3)[order], 0.1)
    exchanged = learner.fit_probe(states, 1 - labels, 0.1)
    weight, bias = reference.fit_probe(states, labels, 0.1)
    compare_probe(thrice, (weight, bias), " of states that are there three times")
    compare_probe(exchanged, (-weight, -bias), " with exchanged labels")


@exercise("fit_probe", weight=2)
@few
@given(n=few_states, seed=seeds)
def test_far_states_do_not_overflow(learner, reference, n, seed):
    """States that are far on their own side, where p rounds to 0 or 1, do not make the result NaN, in float32 as in float64."""
    x, labels = separable(seed, n.N, n.D)
    far = torch.zeros(2, n.D, dtype=torch.float64)
    far[:, 0] = torch.tensor([22.0, -20.0])
    states, labels = torch.cat([x, far]), torch.cat([labels, torch.tensor([1, 0])])
    got = {dtype: learner.fit_probe(states.to(dtype), labels) for dtype in (torch.float64, torch.float32)}
    for dtype, probe in got.items():
        compare_probe(probe, reference.fit_probe(states.to(dtype), labels), f" of {dtype} states, two of which are far away".replace("torch.", ""))


@exercise("fit_probe")
@few
@given(n=few_states, seed=seeds)
def test_labels_may_be_bools_ints_or_floats(learner, reference, n, seed):
    """Labels of any of these dtypes give the same probe; states and labels may be views."""
    states, labels = noisy(seed, n.N, n.D, torch.float32)
    expected = reference.fit_probe(states, labels)
    got = {dtype: learner.fit_probe(states, labels.to(dtype)) for dtype in (torch.bool, torch.int32, torch.float32, torch.float64)}
    spread = torch.stack([labels, labels], dim=1)[:, 0]
    view = learner.bring(of_views)(learner.fit_probe, states, spread)
    for dtype, probe in got.items():
        compare_probe(probe, expected, f" of labels in {dtype}".replace("torch.", ""))
    compare_probe(view, expected, " of states that are a view")


def with_graph_around(fit_probe, states, labels):
    """The probe of states that need a gradient, and whether it has a graph."""
    weight, bias = fit_probe(states.requires_grad_(), labels)
    return weight.detach(), bias.detach(), weight.requires_grad or bias.requires_grad


@exercise("fit_probe")
@few
@given(n=few_states, seed=seeds)
def test_the_probe_has_no_graph_and_the_dtype_of_the_states(learner, reference, n, seed):
    """float32 states have a float32 probe, float64 states a float64 one; the result has no graph, even of states that have one."""
    states, labels = noisy(seed, n.N, n.D)
    got = {dtype: learner.bring(with_graph_around)(learner.fit_probe, states.to(dtype), labels) for dtype in (torch.float32, torch.float64)}
    for dtype, (weight, bias, graph) in got.items():
        compare_probe((weight, bias), reference.fit_probe(states.to(dtype), labels), f" of {dtype} states".replace("torch.", ""))
        holds(not graph, "the probe has a graph: it should be plain numbers, also for states with a gradient")


@exercise("fit_probe", weight=2)
def test_a_penalty_above_0_and_both_classes_are_needed(learner, reference):
    """An l2 of 0 or below raises a ValueError that names l2; another number of labels than of states, or labels of one class, raise one that names labels."""
    states, labels = noisy(4, 22, 3)
    got = learner.fit_probe(states, labels, 1.0)
    for l2 in (0.0, -0.1):
        refuses(lambda l2=l2: learner.fit_probe(states, labels, l2), naming=("l2",), because=f"with l2 = {l2}, separable classes have no finite probe")
    for wrong, why in (
        (labels[:-1].clone(), "there are fewer labels than states"),
        (torch.cat([labels, labels[:1]]), "there are more labels than states"),
        (torch.zeros(22, dtype=torch.long), "all labels are 0"),
        (torch.ones(22, dtype=torch.long), "all labels are 1"),
    ):
        refuses(lambda wrong=wrong: learner.fit_probe(states, wrong), naming=("labels",), because=why)
    compare_probe(got, reference.fit_probe(states, labels, 1.0), " with l2 = 1")


# ---- probe_score


def clusters(seed, N, ones, D=3, apart=4.0):
    """Two groups far from each other, of which the first has so many states and the label 1; in a random order."""
    labels = (torch.arange(N) < ones).long()
    states = tensor(seed, N, D, scale=0.4)
    states[:, 0] += apart * (labels - 0.5)
    order = torch.randperm(N, generator=torch.Generator().manual_seed(seed))
    return states[order], labels[order]


def scores(probe_score, cases, with_generator=True):
    """The pairs for several (states, labels, folds, seed)."""
    return [probe_score(states, labels, folds, torch.Generator().manual_seed(seed)) for states, labels, folds, seed in cases]


def pair(got, what=""):
    """An accuracy and a control, both plain floats from 0 to 1."""
    fits = isinstance(got, list | tuple) and len(got) == 2 and all(isinstance(part, float) for part in got)
    holds(fits, "the result should be a pair of floats: the accuracy, and the control")
    holds(all(-1e-9 <= part <= 1 + 1e-9 for part in got), f"an accuracy{what} is a share of the states, from 0 to 1; the result is {tuple(got)}")
    return tuple(got)


@exercise("probe_score", weight=3)
@one
@given(seed=seeds)
def test_random_labels_are_predicted_by_chance(learner, seed):
    """With more features than states, a probe is perfect on the states that it was fitted on, whatever their labels; on held-out states it is right in about half."""
    cases = []
    for i in range(4):
        states, labels = tensor(seed + i, 24, 30), torch.arange(24) % 2
        cases.append((states, labels, 3, seed + i))
    got = [pair(result) for result in learner.bring(scores)(learner.probe_score, cases)]
    clear = pair(learner.probe_score(*clusters(seed, 24, 12), 3))
    for which, what in ((0, "the accuracy with labels that say nothing"), (1, "the control")):
        mean = sum(result[which] for result in got) / len(got)
        holds(0.15 < mean < 0.8, f"{what} is {mean:.2f} on average of {len(got)} calls, and it should be about a half: 30 features fit any labels of 24 states, and say nothing about others")
    close(clear[0], 1.0, "the accuracy for two groups far apart")


@exercise("probe_score", weight=3)
@one
@given(seed=seeds)
def test_every_state_is_predicted_once(learner, seed):
    """Groups far apart have accuracy 1 for any number of folds from 2 to N, also where the folds cannot be equal: right predictions are divided by N."""
    cases = [(*clusters(seed, N, ones), folds, seed) for N, ones, folds in ((23, 9, 4), (14, 8, 2), (9, 4, 9))]
    got = learner.bring(scores)(learner.probe_score, cases)
    for (states, _, folds, _), result in zip(cases, got):
        close(pair(result)[0], 1.0, f"the accuracy for two groups far apart, {len(states)} states in {folds} folds")


@exercise("probe_score", weight=3)
@one
@given(seed=seeds)
def test_states_that_say_nothing_get_the_larger_class(learner, seed):
    """If all states are equal, every probe predicts the larger class: accuracy and control are its share of all N states, which a mean over unequal folds is not."""
    cases = []
    for N, ones, folds in ((23, 6, 4), (23, 13, 4), (17, 12, 3)):
        labels = (torch.arange(N) < ones).long()[torch.randperm(N, generator=torch.Generator().manual_seed(seed))]
        cases.append((torch.zeros(N, 2), labels, folds, seed))
    got = learner.bring(scores)(learner.probe_score, cases)
    for (_, labels, folds, _), result in zip(cases, got):
        share = max(int(labels.sum()), len(labels) - int(labels.sum())) / len(labels)
        for name, part in zip(("the accuracy", "the control"), pair(result)):
            with check:
                close(part, share, f"{name} for {len(labels)} equal states, {int(labels.sum())} with label 1, in {folds} folds", tol=1e-6)


@exercise("probe_score", weight=2)
@one
@given(seed=seeds)
def test_the_control_shuffles_the_labels_that_are_predicted_too(learner, seed):
    """The control has one random order of all labels, for fitting and for predicting. Two tight groups get about a half of such labels right, never none or all of them."""
    states, labels = clusters(seed, 60, 30, D=1)
    got = [pair(result) for result in learner.bring(scores)(learner.probe_score, [(states, labels, 2, seed + i) for i in range(12)])]
    controls = [control for _, control in got]
    holds(all(accuracy == 1.0 for accuracy, _ in got), "the accuracy for two groups far apart should be 1")
    far = max(controls, key=lambda control: abs(control - 0.5))
    holds(abs(far - 0.5) < 0.45, f"a control is {far:.2f}: shuffled labels cannot give that; the labels that are predicted should be shuffled, too")
    mean = sum(controls) / len(controls)
    holds(0.3 < mean < 0.7, f"controls are {mean:.2f} on average, for two groups of equal size; shuffled labels should be right in about a half")


@exercise("probe_score", weight=2)
@one
@given(seed=seeds)
def test_no_probe_is_fitted_to_one_class(learner, seed):
    """With two states in a class, one is in each of two folds, in every draw and for shuffled labels too, so that every probe has both classes."""
    cases = [(*clusters(seed, 12, ones, apart=9.0), 2, seed + i) for i in range(5) for ones in (2, 10)]
    got = learner.bring(scores)(learner.probe_score, cases)
    for result in got:
        close(pair(result)[0], 1.0, "the accuracy for groups of 2 and of 10 states far apart")


@exercise("probe_score", weight=2)
@one
@given(seed=seeds)
def test_the_accuracy_is_that_of_fitted_probes(learner, reference, seed):
    """For groups that overlap, with a large feature that says nothing, the accuracy is on average that of the same probes with other folds."""
    cases = []
    for i in range(6):
        states, labels = clusters(seed + i, 40, 14, apart=1.2)
        states[:, 1] *= 15
        cases.append((states + 2.0, labels, 3, seed + i))
    got = [pair(result) for result in learner.bring(scores)(learner.probe_score, cases)]
    expected = reference.bring(scores)(reference.probe_score, cases)
    mean, right = (sum(accuracy for accuracy, _ in results) / len(results) for results in (got, expected))
    holds(abs(mean - right) < 0.1, f"the accuracy is {mean:.2f} on average of 6 calls; such states are predicted right in about {right:.2f}")


def draws(probe_score, states, labels, folds):
    """Results by generator: seed 1 under two global seeds, seed 1 used four times, and six other seeds; and whether other random numbers were used."""
    import random

    def seeded(seed):
        return torch.Generator().manual_seed(seed)

    torch.manual_seed(10)
    random.seed(10)
    before, before_in_python, going_on = torch.get_rng_state(), random.getstate(), seeded(1)
    in_a_row = [probe_score(states, labels, folds, going_on) for _ in range(4)]
    kept = torch.equal(before, torch.get_rng_state()) and before_in_python == random.getstate()
    torch.manual_seed(11)
    random.seed(11)
    again = probe_score(states, labels, folds, generator=seeded(1))
    return {"in a row": in_a_row, "again": again, "others": [probe_score(states, labels, folds, seeded(seed)) for seed in range(2, 8)], "kept": kept}


@exercise("probe_score", weight=3)
@one
@given(seed=seeds)
def test_the_generator_decides_folds_and_control(learner, seed):
    """The same generator gives the same pair, other generators give other folds and another order of the labels; the generator is drawn from, and nothing else is random."""
    states, labels = tensor(seed, 41, 4), (torch.arange(41) % 5 < 2).long()
    found, clear = learner.bring(draws)(learner.probe_score, states, labels, 2), learner.probe_score(*clusters(seed, 14, 6), 5)
    in_a_row, others = ([pair(result) for result in found[name]] for name in ("in a row", "others"))
    first, again, everything = in_a_row[0], pair(found["again"]), [*in_a_row[:1], *others]
    close(clear[0], 1.0, "the accuracy without a generator, for two groups far apart")
    holds(first == again, f"a generator with the same seed gives {again} after {first}, so something else is random too")
    holds(len({accuracy for accuracy, _ in everything}) > 1, "the accuracy is the same for seven generators; each should deal the states to the folds in another way")
    holds(len({control for _, control in everything}) > 1, "the control is the same for seven generators; each should put the labels into another order")
    holds(len(set(in_a_row)) > 1, "the generator is not drawn from: four calls with it, one after the other, give the same pair")
    holds(found["kept"], "probe_score uses other random numbers than those of the generator")


@exercise("probe_score")
@one
@given(seed=seeds)
def test_labels_and_states_of_several_dtypes(learner, seed):
    """Labels may be bools, ints or floats, and states float32 or float64, or a view: with the same generator the pair is the same."""
    states, labels = clusters(seed, 15, 7)
    got = {dtype: learner.bring(scores)(learner.probe_score, [(states, labels.to(dtype), 2, 3)])[0] for dtype in (torch.long, torch.bool, torch.float32)}
    double = learner.bring(scores)(learner.probe_score, [(states.double(), labels, 2, 3)])[0]
    view = learner.bring(of_views)(learner.probe_score, states, torch.stack([labels, labels], dim=1)[:, 1], 2)
    for dtype, result in got.items():
        close(pair(result)[0], 1.0, f"the accuracy of labels in {dtype}".replace("torch.", ""))
        close(result[1], got[torch.long][1], f"the control of labels in {dtype}".replace("torch.", ""))
    close(pair(double)[0], 1.0, "the accuracy of float64 states")
    close(pair(view)[0], 1.0, "the accuracy of states that are a view")


@exercise("probe_score", weight=2)
def test_folds_and_classes_have_a_least_size(learner):
    """Folds below 2 or above N raise a ValueError that names folds; a class with one state or none raises one that names labels."""
    states, labels = clusters(3, 10, 2)
    fine = [learner.probe_score(states, labels, folds) for folds in (2, 10)]
    for folds in (11, 1, 0):
        refuses(lambda folds=folds: learner.probe_score(states, labels, folds), naming=("folds",), because=f"10 states cannot be cut into {folds} folds, of which one is held out")
    for ones in (0, 1, 9, 10):
        wrong = (torch.arange(10) < ones).long()
        refuses(lambda wrong=wrong: learner.probe_score(states, wrong, 2), naming=("labels",), because=f"{ones} of 10 states have label 1, and each class needs two")
    for result in fine:
        close(pair(result)[0], 1.0, "the accuracy for two groups far apart, one of 2 states")


