"""Chapter 23's probes and shares of variance against scikit-learn, where it is installed, and against autograd."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor


def drawn(N: int, D: int, ones: float = 0.5) -> tuple[Tensor, Tensor]:
    """States, and labels that follow from them with much noise."""
    states = torch.randn(N, D, dtype=torch.float64) * torch.logspace(-1, 1, D) + torch.randn(D, dtype=torch.float64)
    score = states @ torch.randn(D, dtype=torch.float64) + 2 * torch.randn(N, dtype=torch.float64)
    return states, (score > score.quantile(1 - ones)).long()


@pytest.mark.parametrize("N, D, ones, l2", [(60, 4, 0.5, 1e-2), (30, 50, 0.4, 1e-1), (200, 7, 0.05, 1e-3)])
def test_a_probe_is_scikit_learns_logistic_regression(ours, N, D, ones, l2):
    """Theirs weighs the sum of the losses with C, so C = 1 / (N · l2)."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    states, labels = drawn(N, D, ones)
    theirs = linear_model.LogisticRegression(C=1 / (N * l2), solver="newton-cholesky", tol=1e-12, max_iter=1000)
    theirs.fit(states.numpy(), labels.numpy())
    weight, bias = ours.fit_probe(states, labels, l2)
    assert torch.allclose(weight, torch.from_numpy(theirs.coef_[0]), rtol=1e-6, atol=1e-8)
    assert float(bias) == pytest.approx(float(theirs.intercept_[0]), rel=1e-6)


def test_a_score_is_that_of_their_stratified_folds_on_average(ours):
    """Over 30 draws of folds, for 3 folds of 60 states, with the labels and with shuffled ones."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    selection = pytest.importorskip("sklearn.model_selection")
    states, labels = drawn(60, 5, 0.4)
    found, expected = [], []
    for seed in range(30):
        found.append(ours.probe_score(states, labels, 3, torch.Generator().manual_seed(seed)))
        pair = []
        for answers in (labels, labels[torch.randperm(60)]):
            theirs = linear_model.LogisticRegression(C=1 / (40 * 1e-2), tol=1e-8, max_iter=1000)
            folds = selection.StratifiedKFold(3, shuffle=True, random_state=seed)
            pair.append(selection.cross_val_score(theirs, states.numpy(), answers.numpy(), cv=folds).mean())
        expected.append(pair)
    mean, right = torch.tensor(found).double().mean(0), torch.tensor(expected).double().mean(0)
    assert abs(float(mean[0] - right[0])) < 0.03 and abs(float(mean[1] - right[1])) < 0.06
    assert right[0] > right[1] + 0.1


def test_the_share_is_their_r2_with_weighted_variances(ours):
    metrics = pytest.importorskip("sklearn.metrics")
    x, _ = drawn(40, 6)
    guess = x + torch.randn_like(x) * torch.linspace(0.1, 3, 6) + 0.3
    expected = metrics.r2_score(x.numpy(), guess.numpy(), multioutput="variance_weighted")
    assert ours.explained_variance(x, guess) == pytest.approx(expected, rel=1e-12)


def gradient(states: Tensor, labels: Tensor, l2: float, weight: Tensor, bias: Tensor) -> Tensor:
    """Of the loss that a probe should make smallest, by autograd."""
    leaves = [weight.clone().requires_grad_(), bias.clone().requires_grad_()]
    score = states @ leaves[0] + leaves[1]
    loss = F.binary_cross_entropy_with_logits(score, labels.double()) + l2 / 2 * leaves[0].square().sum()
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, leaves)])


def full_newton_steps(states: Tensor, labels: Tensor, l2: float) -> Tensor:
    """Weight and bias after 100 steps that are never halved."""
    x, y = F.pad(states, (0, 1), value=1.0), labels.double()
    penalty = torch.full_like(x[0], l2)
    penalty[-1] = 0.0
    theta = torch.zeros_like(penalty)
    for _ in range(100):
        p = torch.sigmoid(x @ theta)
        curvature = (x.T * (p * (1 - p))) @ x / len(y) + torch.diag(penalty + 1e-12)
        theta = theta - torch.linalg.solve(curvature, x.T @ (p - y) / len(y) + penalty * theta)
    return theta


@pytest.mark.parametrize("seed", [146, 208, 398, 523, 554])
def test_a_probe_is_at_the_minimum_where_full_newton_steps_overshoot(ours, seed):
    """Features of some hundreds and more, as language models have them: steps that are not halved end far away."""
    generator = torch.Generator().manual_seed(seed)
    scale = torch.exp(2.5 * torch.randn(2, generator=generator, dtype=torch.float64))
    heavy = torch.exp(2 * torch.randn(8, 1, generator=generator, dtype=torch.float64))
    states = torch.randn(8, 2, generator=generator, dtype=torch.float64) * heavy
    states = (states + 2 * torch.randn(2, generator=generator, dtype=torch.float64)) * scale
    labels = (states[:, 0] > states[:, 0].median()).long()
    labels[seed % 8] = 1 - labels[seed % 8]
    weight, bias = ours.fit_probe(states, labels, 1e-3)
    full = full_newton_steps(states, labels, 1e-3)
    assert gradient(states, labels, 1e-3, weight, bias).norm() < 1e-8
    assert gradient(states, labels, 1e-3, full[:-1], full[-1]).norm() > 1
