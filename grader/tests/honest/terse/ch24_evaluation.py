"""Chapter 24 in the terse style: as short as it can be read."""

import math
from statistics import NormalDist

import torch
import torch.nn.functional as F


def bootstrap_interval(values, level=0.95, resamples=2000, generator=None, clusters=None):
    n, names = len(values), range(len(values)) if clusters is None else clusters
    assert n, "no values"
    assert 0 < level < 1, f"level {level}"
    assert resamples > 0, f"resamples {resamples}"
    assert len(names) == n, f"{len(names)} clusters, {n} values"
    ids = {name: i for i, name in enumerate(dict.fromkeys(names))}
    at, k = torch.tensor([ids[name] for name in names]), len(ids)
    x = torch.tensor(values, dtype=torch.float64)
    both = torch.zeros(k, 2, dtype=torch.float64).index_add_(0, at, torch.stack([x, torch.ones_like(x)], 1))
    total, count = both[torch.randint(k, (resamples, k), generator=generator)].sum(1).unbind(1)
    return tuple((total / count).quantile(q).item() for q in ((1 - level) / 2, (1 + level) / 2))


def paired_test(a, b, generator=None):
    assert len(a) == len(b) > 0, f"a {len(a)}, b {len(b)}"
    d = torch.tensor(a, dtype=torch.float64) - torch.tensor(b, dtype=torch.float64)
    d = d[d != 0]
    seen = d.sum().abs() - 1e-12 * d.abs().sum() * len(d)
    if len(d) > 20:
        sums = torch.randint(2, (10**4, len(d)), generator=generator).double().mul(2).sub(1) @ d
        return (1 + (sums.abs() >= seen).sum().item()) / (1 + 10**4)
    sums = torch.zeros(1, dtype=torch.float64)
    for x in d.tolist():
        sums = (sums[:, None] + torch.tensor([x, -x], dtype=torch.float64)).flatten()
    return (sums.abs() >= seen).double().mean().item()


def questions_needed(accuracy, difference, power=0.8):
    p, q, z = accuracy, accuracy + difference, NormalDist().inv_cdf
    assert 0 <= p <= 1, f"accuracy {p}"
    assert difference > 0 and q < 1 + 1e-9, f"difference {difference}"
    assert 0.5 < power < 1, f"power {power}"
    return max(1, math.ceil(((z(0.975) + z(power)) / difference) ** 2 * (p * (1 - p) + q * (1 - q))))


def calibration_error(confidence, correct, bins=10):
    c = confidence.double()
    assert len(c) and (c >= 0).all() and (c <= 1).all(), "confidence"
    assert c.shape == correct.shape, f"correct {tuple(correct.shape)}, not {tuple(c.shape)}"
    assert bins > 0, f"bins {bins}"
    at = (c * bins).floor().clamp(max=bins - 1).long()
    return (torch.bincount(at, c - correct.double()).abs().sum() / len(c)).item()


def fit_temperature(logits, targets):
    assert len(logits), "no logits"
    z = logits.double()
    z, lo, hi = z - z.gather(1, targets[:, None]), -math.log(100), math.log(100)
    for _ in range(99):
        x = (lo + hi) / 2
        up = (F.softmax(z / math.exp(x), 1) * z).sum() > 0
        lo, hi = (x, hi) if up else (lo, x)
    return math.exp(lo)


def bradley_terry(wins):
    P = len(wins)
    assert wins.shape == (P, P) and wins.min() >= 0, f"wins {tuple(wins.shape)}"
    w = (wins.double() + 0.5).tril(-1) + (wins.double() + 0.5).triu(1)
    r = w[0] * 0
    for _ in range(999):
        p = (r[:, None] - r).sigmoid()
        h = (w + w.T) * p * (1 - p)
        step = torch.linalg.pinv(h.sum(1).diag() - h, rcond=1e-14, hermitian=True) @ (w - (w + w.T) * p).sum(1)
        r = r + step / max(1, 2 * step.abs().max().item())
    return (r - r.mean()).float()
