"""In the typed style: named steps, a dataclass where values belong together, every type written down."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import torch
from torch import Tensor

EXACT_LIMIT: Final[int] = 20
DRAWS: Final[int] = 10_000
COLDEST: Final[float] = 0.01
HOTTEST: Final[float] = 100.0


@dataclass
class Cluster:
    total: float = 0.0
    count: int = 0

    def add(self, value: float) -> None:
        self.total += float(value)
        self.count += 1


def _clusters(values: Sequence[float], names: Sequence[Hashable] | None) -> list[Cluster]:
    if names is None:
        return [Cluster(float(value), 1) for value in values]
    if len(names) != len(values):
        raise ValueError(f"clusters must have {len(values)} names, got {len(names)}")
    found: dict[Hashable, Cluster] = {}
    for name, value in zip(names, values, strict=True):
        found.setdefault(name, Cluster()).add(value)
    return list(found.values())


def bootstrap_interval(
    values: Sequence[float],
    level: float = 0.95,
    resamples: int = 2000,
    generator: torch.Generator | None = None,
    clusters: Sequence[Hashable] | None = None,
) -> tuple[float, float]:
    if len(values) == 0:
        raise ValueError("values must not be empty")
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must be between 0 and 1, got {level}")
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, got {resamples}")
    groups: list[Cluster] = _clusters(values, clusters)
    size: int = len(groups)
    uniform: Tensor = torch.ones(size, dtype=torch.float64).expand(resamples, size)
    drawn: Tensor = torch.multinomial(uniform, size, replacement=True, generator=generator)  # (resamples, size)
    totals: Tensor = torch.tensor([group.total for group in groups], dtype=torch.float64)
    counts: Tensor = torch.tensor([group.count for group in groups], dtype=torch.float64)
    means: Tensor = torch.take(totals, drawn).sum(dim=1) / torch.take(counts, drawn).sum(dim=1)
    tail: float = (1.0 - level) / 2.0
    return float(torch.quantile(means, tail)), float(torch.quantile(means, 1.0 - tail))


@dataclass(frozen=True)
class SignFlips:
    """The differences that are not 0, and how far their sum is from 0."""

    differences: Tensor

    @property
    def threshold(self) -> float:
        """What a sum as far as the one that was seen reaches, in spite of rounding."""
        return float(self.differences.sum().abs() - 1e-10 * self.differences.abs().max())

    def count_far(self, negative: Tensor) -> int:
        """Of these ways (ways, m), True for a minus: how many sums are as far?"""
        sums: Tensor = torch.where(negative, -self.differences, self.differences).sum(dim=1)
        return int(torch.count_nonzero(sums.abs() >= self.threshold))

    def all_ways(self) -> Iterator[Tensor]:
        """In parts of at most 2 ** 14 ways."""
        m: int = self.differences.numel()
        powers: Tensor = 2 ** torch.arange(m)
        for numbers in torch.arange(2**m).split(2**14):
            yield numbers[:, None].bitwise_and(powers) != 0


def paired_test(a: Sequence[float], b: Sequence[float], generator: torch.Generator | None = None) -> float:
    if len(a) != len(b) or len(a) == 0:
        raise ValueError(f"a and b must have equally many scores, at least one; got {len(a)} and {len(b)}")
    each: list[float] = [float(x) - float(y) for x, y in zip(a, b, strict=True)]
    differences: Tensor = torch.tensor([x for x in each if x != 0.0], dtype=torch.float64)
    m: int = differences.numel()
    if m == 0:
        return 1.0
    flips = SignFlips(differences)
    if m <= EXACT_LIMIT:
        return sum(flips.count_far(ways) for ways in flips.all_ways()) / 2**m
    drawn: Tensor = torch.rand(DRAWS, m, generator=generator, dtype=torch.float64) < 0.5
    return (1 + flips.count_far(drawn)) / (1 + DRAWS)


def questions_needed(accuracy: float, difference: float, power: float = 0.8) -> int:
    if not 0.0 <= accuracy <= 1.0:
        raise ValueError(f"accuracy must be from 0 to 1, got {accuracy}")
    if difference <= 0.0:
        raise ValueError(f"difference must be above 0, got {difference}")
    better: float = accuracy + difference
    if better > 1.0 and not math.isclose(better, 1.0, rel_tol=1e-9):
        raise ValueError(f"accuracy + difference must be at most 1, got difference = {difference}")
    if not 0.5 < power < 1.0:
        raise ValueError(f"power must be between 0.5 and 1, got {power}")
    normal: NormalDist = NormalDist()
    quantiles: float = normal.inv_cdf(1.0 - 0.05 / 2.0) + normal.inv_cdf(power)
    variance: float = sum(p * (1.0 - p) for p in (accuracy, min(better, 1.0)))
    return max(1, math.ceil(quantiles**2 * variance / difference**2))


def calibration_error(confidence: Tensor, correct: Tensor, bins: int = 10) -> float:
    if confidence.numel() == 0:
        raise ValueError("confidence must not be empty")
    inside: Tensor = torch.logical_and(confidence >= 0.0, confidence <= 1.0)
    if not bool(inside.all()):
        raise ValueError("confidence must have probabilities only")
    if correct.shape != confidence.shape:
        raise ValueError(f"correct must have the shape {tuple(confidence.shape)}, got {tuple(correct.shape)}")
    if bins < 1:
        raise ValueError(f"bins must be at least 1, got {bins}")
    c: Tensor = confidence.to(torch.float64)
    right: Tensor = correct.to(torch.float64)
    place: Tensor = torch.clamp(torch.floor(c * bins), max=bins - 1)
    error: float = 0.0
    for number in place.unique().tolist():
        members: Tensor = place == number
        share: float = members.double().mean().item()
        error += share * abs(c[members].mean().item() - right[members].mean().item())
    return error


def _mean_loss(scores: Tensor, temperature: float) -> float:
    """Scores are the logits minus the target's."""
    return float(torch.logsumexp(scores / temperature, dim=1).mean())


def fit_temperature(logits: Tensor, targets: Tensor) -> float:
    if logits.shape[0] == 0:
        raise ValueError("logits must have at least one row")
    z: Tensor = logits.detach().to(torch.float64)
    scores: Tensor = z - torch.gather(z, 1, targets.unsqueeze(1))
    low: float = math.log(COLDEST)
    high: float = math.log(HOTTEST)
    while high - low > 1e-13:
        third: float = (high - low) / 3.0
        left, right = low + third, high - third
        if _mean_loss(scores, math.exp(left)) < _mean_loss(scores, math.exp(right)):
            high = right
        else:
            low = left
        if third < 1e-13:
            break
    middle: float = math.exp((low + high) / 2.0)
    return min((middle, COLDEST, HOTTEST), key=lambda temperature: _mean_loss(scores, temperature))


def bradley_terry(wins: Tensor) -> Tensor:
    if wins.dim() != 2 or wins.shape[0] != wins.shape[1]:
        raise ValueError(f"wins must be square, got {tuple(wins.shape)}")
    if bool(torch.any(wins < 0)):
        raise ValueError("wins must not have numbers below 0")
    players: int = wins.shape[0]
    itself: Tensor = torch.eye(players, dtype=torch.bool, device=wins.device)
    count: Tensor = (wins.to(torch.float64) + 0.5).masked_fill(itself, 0.0)
    games: Tensor = count + count.transpose(0, 1)
    ratings: Tensor = torch.zeros(players, dtype=torch.float64, device=wins.device)
    for _ in range(500):
        chance: Tensor = torch.sigmoid(ratings.unsqueeze(1) - ratings.unsqueeze(0))
        slope: Tensor = (count - games * chance).sum(dim=1)
        weight: Tensor = games * chance * (1.0 - chance)
        laplacian: Tensor = torch.diag(weight.sum(dim=1)) - weight
        step: Tensor = torch.linalg.solve(laplacian + weight.mean() + itself.double() * (players == 1), slope)
        longest: float = float(step.abs().max())
        ratings = ratings + step / max(1.0, 2.0 * longest)
        if longest < 1e-10:
            break
    return (ratings - ratings.mean()).to(torch.float32)
