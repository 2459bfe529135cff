"""Which models are trained, and for how many FLOPs, so that everything fits into the time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from grader.files import UserProblem
from grader.models.scaling.sizes import Size, nearest_size

GROWTH = 3  # each budget is so many times the one before
SMALLEST = 1e10  # FLOPs; with less, no size learns more than how frequent each word is
TOKENS_A_PARAMETER = 20  # a published rule of thumb: the middle of the sizes that are tried
AROUND = (0.5, 0.8, 1.25, 2.0)  # the sizes, as shares of the middle
OFF = (3.0, 1 / 3)  # sizes beside the predicted one
REPEATS = 2  # of one small training with other random numbers
SHARE = 0.9  # of the time that is planned


class ScaleProblem(UserProblem):
    """The experiment cannot be made; the message is a sentence."""

    exit_status = 1


@dataclass(frozen=True)
class Run:
    """One training, planned."""

    budget: float
    size: Size
    seed: int

    @property
    def tokens(self) -> float:
        return self.budget / self.size.flops


@dataclass(frozen=True)
class Speed:
    """Seconds of training on a token: some for each token, and some for each FLOP."""

    a_token: float
    a_flop: float

    @classmethod
    def of_two(cls, sizes: Sequence[Size], seconds: Sequence[float]) -> Speed:
        """From what a token takes with a small and with a large size."""
        small, large = sizes
        a_flop = max((seconds[1] - seconds[0]) / (large.flops - small.flops), 0.0)
        return cls(max(seconds[0] - a_flop * small.flops, 0.0), a_flop)

    def seconds(self, runs: Sequence[Run]) -> float:
        return sum(run.tokens * self.a_token + run.budget * self.a_flop for run in runs)


def budgets_of(first: float) -> list[float]:
    """The three budgets, and that of the test."""
    return [first * GROWTH**i for i in range(4)]


def curve_runs(first: float, sizes: Sequence[Size], seed: int) -> list[Run]:
    """The trainings that the curves are made of."""
    return [
        Run(budget, nearest_size(sizes, share * middle_of(budget)), seed)
        for budget in budgets_of(first)[:3]
        for share in AROUND
    ]


def repeated_runs(first: float, sizes: Sequence[Size], seed: int) -> list[Run]:
    """The same training of a small model with other stories and other first values; the first one is of the curves."""
    size = nearest_size(sizes, AROUND[1] * middle_of(first))
    return [Run(first, size, seed + i) for i in range(REPEATS + 1)]


def test_runs(first: float, sizes: Sequence[Size], parameters: float, seed: int) -> list[Run]:
    """The larger training at this size, and the same budget with sizes beside it."""
    budget = budgets_of(first)[-1]
    return [Run(budget, nearest_size(sizes, share * parameters), seed) for share in (1.0, *OFF)]


def middle_of(budget: float) -> float:
    """The number of parameters N that the rule of thumb gives: budget = 6 N D, with D tokens."""
    return math.sqrt(budget / 6 / TOKENS_A_PARAMETER)


def plan(minutes: float, speed: Speed, sizes: Sequence[Size]) -> float:
    """The largest first budget, of two digits, with which everything fits into the time but the last training, which
    is made if time is left. ScaleProblem if none does."""

    def needed(first: float) -> float:
        larger = test_runs(first, sizes, middle_of(budgets_of(first)[-1]), 0)[:2]
        return speed.seconds([*curve_runs(first, sizes, 0), *repeated_runs(first, sizes, 0)[1:], *larger])

    def rounded(first: float) -> float:
        return float(f"{first:.1e}")

    first, time = SMALLEST, SHARE * minutes * 60
    if needed(first) > time:
        raise ScaleProblem(
            f"{minutes:g} minutes are too few on this machine: even the smallest trainings take about "
            f"{needed(first) / SHARE / 60:.1f}; give more with --minutes"
        )
    while needed(rounded(1.1 * first)) <= time:
        first = rounded(1.1 * first)
    return first
