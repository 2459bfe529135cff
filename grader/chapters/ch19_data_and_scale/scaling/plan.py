"""Which models are trained, and for how many FLOPs, so that everything fits into the time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from grader.files import UserProblem

BUDGET_GROWTH = 3  # each budget is so many times the one before
SMALLEST_BUDGET_FLOPS = 5e9  # with less, the models learn little more than how frequent each word is
TOKENS_A_PARAMETER = 28  # the middle of the sizes that are tried; the best of such tiny models have 20 to 45
TRIED_SIZES = (0.35, 0.6, 1.0, 1.7, 2.9)  # as shares of the middle
OTHER_TESTED_SIZES = (3.0, 1 / 3)  # as shares of the predicted one
SEEDS_A_SIZE = 2  # other stories and other first values
PLANNED_TIME_SHARE = 0.9
SPARE_TIME = 1.2  # the machine may be slower the next time


class ScaleProblem(UserProblem):
    """The experiment cannot be made; the message is a sentence."""

    exit_status = 1


@dataclass(frozen=True)
class Size:
    width: int
    parameters: int
    flops: int  # of training on one token


@dataclass(frozen=True)
class Run:
    """One training, planned."""

    budget: float
    size: Size
    tokens: float
    seed: int


@dataclass(frozen=True)
class Plan:
    """All trainings of an experiment."""

    first: float  # the smallest budget
    seed: int
    speed: tuple[float, float]  # the seconds that a token takes, and those that a FLOP takes
    sizes: Sequence[Size]

    @property
    def budgets(self) -> list[float]:
        """The three budgets, and that of the test."""
        return [self.first * BUDGET_GROWTH**i for i in range(4)]

    def run(self, budget: float, parameters: float, repeat: int = 0) -> Run:
        size = min(self.sizes, key=lambda size: abs(math.log(size.parameters / parameters)))
        return Run(budget, size, budget / size.flops, self.seed + repeat)

    def curves(self) -> list[list[Run]]:
        """For each size of each budget, the same training with several seeds."""
        sizes = [(budget, share * middle(budget)) for budget in self.budgets[:3] for share in TRIED_SIZES]
        return [[self.run(budget, size, repeat) for repeat in range(SEEDS_A_SIZE)] for budget, size in sizes]

    def tests(self, parameters: float) -> list[Run]:
        """The larger training with this size, and the same budget with other sizes."""
        return [self.run(self.budgets[3], share * parameters) for share in (1.0, *OTHER_TESTED_SIZES)]

    @property
    def minutes(self) -> float:
        """For all trainings but the last test."""
        tests = self.tests(middle(self.budgets[3]))[:2]
        return self.seconds([*chain(*self.curves()), *tests]) / PLANNED_TIME_SHARE / 60

    def seconds(self, runs: Sequence[Run]) -> float:
        a_token, a_flop = self.speed
        return sum(run.tokens * a_token + run.budget * a_flop for run in runs)


def middle(budget: float) -> float:
    """The number of parameters N with which budget = 6 N D, at so many tokens D a parameter."""
    return math.sqrt(budget / 6 / TOKENS_A_PARAMETER)


def make_plan(
    minutes: float, seed: int, speed: tuple[float, float], sizes: Sequence[Size], may_take_longer: bool = False
) -> Plan:
    """The plan with the largest budgets that fits into the time. The last test is made only if time is left.

    If even the smallest budgets take longer: that plan, or ScaleProblem where the user chose the time."""
    plan = Plan(SMALLEST_BUDGET_FLOPS, seed, speed, sizes)
    if plan.minutes > minutes and not may_take_longer:
        too_short = "1 minute is too short" if minutes == 1 else f"{minutes:g} minutes are too short"
        seeds = f" --seed {seed}" if seed else ""
        raise ScaleProblem(
            f"{too_short} at the present speed of this machine: the smallest trainings take about "
            f"{math.ceil(plan.minutes)} minutes; give more time: `headway scale{seeds} --minutes "
            f"{math.ceil(SPARE_TIME * plan.minutes)}`"
        )
    while (larger := Plan(float(f"{1.1 * plan.first:.1e}"), seed, speed, sizes)).minutes <= minutes:
        plan = larger
    return plan
