"""Chapter 24's intervals, tests, calibration and ratings against enumeration, autograd, SciPy and scikit-learn."""

from __future__ import annotations

import itertools
import math
from statistics import NormalDist

import pytest
import torch
import torch.nn.functional as F

double = torch.float64


def generator(seed):
    return torch.Generator().manual_seed(seed)


def normal(seed, *shape):
    return torch.randn(*shape, generator=generator(seed), dtype=double)


# ---- bootstrap_interval


def test_the_ends_are_quantiles_of_all_resamples(ours):
    """All 7 ** 7 ways to draw from 7 values, and all 4 ** 4 ways to draw from 4 clusters of different sizes."""
    values = normal(1, 7).exp()
    everything = values[torch.cartesian_prod(*[torch.arange(7)] * 7)].mean(1)
    low, high = ours.bootstrap_interval(values.tolist(), 0.9, 400_000, generator(2))
    expected = everything.quantile(torch.tensor([0.05, 0.95], dtype=double))
    assert [low, high] == pytest.approx(expected.tolist(), rel=0.01)

    names = [0, 1, 1, 2, 2, 2, 3]
    sums = torch.stack([values[[n == name for n in names]].sum() for name in range(4)])
    counts = torch.tensor([1.0, 2.0, 3.0, 1.0], dtype=double)
    ways = torch.cartesian_prod(*[torch.arange(4)] * 4)
    everything = sums[ways].sum(1) / counts[ways].sum(1)
    found = ours.bootstrap_interval(values.tolist(), 0.5, 400_000, generator(3), names)
    shares = [float((everything <= end + 1e-9).double().mean()) for end in found]  # of few means, each has a large share
    below = [float((everything < end - 1e-9).double().mean()) for end in found]
    for share, less, q in zip(shares, below, (0.25, 0.75)):
        assert less - 0.01 <= q <= share + 0.01


def test_the_interval_is_scipys_percentile_interval(ours):
    numpy, stats = pytest.importorskip("numpy"), pytest.importorskip("scipy.stats")
    values = normal(4, 40).exp().numpy()
    rng = numpy.random.default_rng(5)
    theirs = stats.bootstrap((values,), numpy.mean, n_resamples=50_000, method="percentile", rng=rng).confidence_interval
    mine = ours.bootstrap_interval(values.tolist(), resamples=50_000, generator=generator(6))
    assert mine == pytest.approx((theirs.low, theirs.high), rel=0.01)


# ---- paired_test


@pytest.mark.parametrize("m", [1, 4, 9])
def test_the_p_value_is_the_share_of_all_products_of_signs(ours, m):
    for seed in range(20):
        d = torch.randint(-5, 6, (m,), generator=generator(seed)).tolist()
        sums = [abs(sum(x * sign for x, sign in zip(d, signs))) for signs in itertools.product((1, -1), repeat=m)]
        expected = sum(each >= abs(sum(d)) for each in sums) / len(sums)
        assert ours.paired_test([x / 10 for x in d], [0.0] * m) == pytest.approx(expected, rel=1e-12)


def test_equal_differences_are_a_sign_test(ours):
    """The sum decides by the number of positive ones, which has a binomial distribution."""
    for n, positive in ((20, 14), (20, 3), (13, 7)):
        far = max(positive, n - positive)
        expected = min(2 * sum(math.comb(n, k) for k in range(far, n + 1)) / 2**n, 1.0)
        found = ours.paired_test([0.3] * positive + [0.2] * (n - positive), [0.2] * positive + [0.3] * (n - positive))
        assert found == pytest.approx(expected, rel=1e-12)


def test_the_p_value_is_scipys_permutation_test(ours):
    numpy, stats = pytest.importorskip("numpy"), pytest.importorskip("scipy.stats")
    a, b = normal(7, 11).numpy(), normal(8, 11).numpy() + 0.4

    def difference(x, y, axis):
        return numpy.mean(x - y, axis=axis)

    options = {"permutation_type": "samples", "n_resamples": math.inf, "vectorized": True}
    theirs = stats.permutation_test((a, b), difference, **options)
    assert ours.paired_test(a.tolist(), b.tolist()) == pytest.approx(float(theirs.pvalue), rel=1e-9)


def test_drawn_ways_come_near_to_all_of_them(ours):
    """22 differences, whose 4 million sums are counted here; a share of 10,000 draws has an error of 0.005 at most."""
    d = normal(9, 22) + 0.15
    sums = torch.zeros(1, dtype=double)
    for x in d:
        sums = torch.cat([sums + x, sums - x])
    expected = float((sums.abs() >= d.sum().abs() - 1e-9).double().mean())
    found = [ours.paired_test(d.tolist(), [0.0] * 22, generator(seed)) for seed in range(4)]
    assert 0.1 < expected < 0.9
    assert sum(found) / 4 == pytest.approx(expected, abs=0.015)


# ---- questions_needed


@pytest.mark.parametrize(("accuracy", "difference", "power"), [(0.5, 0.1, 0.8), (0.7, 0.05, 0.9), (0.3, 0.2, 0.6)])
def test_a_test_with_so_many_questions_has_the_power(ours, accuracy, difference, power):
    """Both models answer n questions 40,000 times, and a test of two shares compares them at the level 0.05."""
    n, draws = ours.questions_needed(accuracy, difference, power), 40_000
    pairs = torch.tensor([accuracy, accuracy + difference], dtype=double).expand(draws, 2)
    shares = torch.binomial(torch.full((draws, 2), float(n), dtype=double), pairs, generator=generator(10)) / n
    error = (shares * (1 - shares)).sum(1).div(n).sqrt()
    found = ((shares[:, 1] - shares[:, 0]).abs() > NormalDist().inv_cdf(0.975) * error).double().mean()
    assert float(found) == pytest.approx(power, abs=0.02)


def test_z_is_scipys_and_torchs(ours):
    stats = pytest.importorskip("scipy.stats")
    for accuracy, difference, power in ((0.5, 0.004, 0.8), (0.35, 0.0008, 0.9)):
        better = accuracy + difference
        n = (stats.norm.ppf(0.975) + stats.norm.ppf(power)) ** 2 / difference**2
        n *= accuracy * (1 - accuracy) + better * (1 - better)
        assert ours.questions_needed(accuracy, difference, power) == math.ceil(n)


# ---- calibration_error and fit_temperature


def test_the_error_is_that_of_scikit_learns_curve(ours):
    """Theirs gives the mean of the labels and of the probabilities of each bin with answers."""
    calibration = pytest.importorskip("sklearn.calibration")
    confidence = torch.rand(300, generator=generator(11), dtype=double)
    correct = torch.rand(300, generator=generator(12), dtype=double) < confidence**2
    for bins in (4, 10, 33):
        share, mean = calibration.calibration_curve(correct.numpy(), confidence.numpy(), n_bins=bins, strategy="uniform")
        number = torch.histc(confidence, bins, 0, 1)
        number = number[number > 0]
        theirs = (torch.from_numpy(abs(share - mean)) * number).sum() / 300
        assert ours.calibration_error(confidence, correct, bins) == pytest.approx(float(theirs), rel=1e-9)


def slope_at(logits, targets, temperature):
    """Of the cross-entropy by log temperature, by autograd."""
    t = torch.tensor(math.log(temperature), dtype=double, requires_grad=True)
    return float(torch.autograd.grad(F.cross_entropy(logits / t.exp(), targets), t)[0])


@pytest.mark.parametrize("scale", [0.2, 1.0, 6.0, 40.0])
def test_the_loss_has_no_slope_at_the_temperature(ours, scale):
    logits = scale * normal(13, 60, 5)
    targets = torch.multinomial((logits / scale * 0.8).softmax(1), 1, generator=generator(14))[:, 0]
    found = ours.fit_temperature(logits, targets)
    assert 0.02 < found < 90
    assert slope_at(logits, targets, found) == pytest.approx(0, abs=1e-9)


def test_the_temperature_is_that_of_scipys_bounded_search(ours):
    optimize = pytest.importorskip("scipy.optimize")
    logits = 4 * normal(15, 80, 6)
    targets = torch.multinomial((logits / 3).softmax(1), 1, generator=generator(16))[:, 0]

    def loss(t):
        return float(F.cross_entropy(logits / math.exp(t), targets))

    theirs = optimize.minimize_scalar(loss, bounds=(math.log(0.01), math.log(100)), method="bounded", options={"xatol": 1e-10})
    assert loss(math.log(ours.fit_temperature(logits, targets))) == pytest.approx(theirs.fun, abs=1e-9)


# ---- bradley_terry


def tables():
    """Random games, games of a few pairs only, and lopsided ones: 1000 to 0, a million, and groups that never met."""
    random = torch.randint(20, (6, 6), generator=generator(17)).double()
    few = random * (torch.rand(6, 6, generator=generator(18)) < 0.3)
    groups = torch.block_diag(1e4 * random[:3, :3], 1e4 * random[3:, 3:])
    line = torch.triu(torch.full((6, 6), 1000.0, dtype=double), 1)
    fork = torch.tensor([[0, 1e5, 1e5, 0], [0, 0, 0, 0], [10, 1e5, 0, 1], [10, 1e5, 1, 0]], dtype=double)
    return {"random": random, "few": few, "groups": groups, "line": line, "fork": fork, "million": 1000 * line}


@pytest.mark.parametrize("name", list(tables()))
def test_no_change_of_the_ratings_makes_the_games_likelier(ours, name):
    """The slope of the log-likelihood by autograd, divided by the curvature, is the distance to the top, along each player's rating."""
    wins = tables()[name]
    ratings = ours.bradley_terry(wins).double()
    count = (wins + 0.5).fill_diagonal_(0)

    def likelihood(x):
        return (count * F.logsigmoid(x[:, None] - x)).sum()

    slope = torch.func.grad(likelihood)(ratings)
    curvature = -torch.func.hessian(likelihood)(ratings)
    step = torch.linalg.pinv(curvature, hermitian=True, rtol=1e-13) @ slope
    assert float(step.abs().max()) < 1e-4
    assert float(ratings.mean()) == pytest.approx(0, abs=1e-5)


def test_the_ratings_are_a_logistic_regression(ours):
    """Each game is a row with 1 for one player and -1 for the other; the weights of scikit-learn's regression are the ratings."""
    numpy, linear_model = pytest.importorskip("numpy"), pytest.importorskip("sklearn.linear_model")
    wins = tables()["random"]
    rows, labels, weights = [], [], []
    for i, j in itertools.permutations(range(6), 2):
        rows.append([(k == i) - (k == j) for k in range(6)])
        rows.append([(k == j) - (k == i) for k in range(6)])
        labels += [1, 0]
        weights += [float(wins[i, j]) + 0.5] * 2
    regression = linear_model.LogisticRegression(C=1e8, fit_intercept=False, solver="newton-cholesky", tol=1e-12)
    regression.fit(numpy.array(rows), labels, sample_weight=weights)
    theirs = torch.from_numpy(regression.coef_[0])
    assert torch.allclose(ours.bradley_terry(wins).double(), theirs - theirs.mean(), atol=1e-4)
