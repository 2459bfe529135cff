"""Trains what is missing, fits the laws with the learner's functions, predicts, and tests the prediction."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import stdev
from typing import Any, Protocol

import torch
from grader.models.design import Design
from grader.models.own_parts import TRAINING, model_exercises
from grader.models.own_parts import WORDS as TOKENIZER
from grader.models.scaling.plan import (
    Run,
    ScaleProblem,
    budgets_of,
    curve_runs,
    plan,
    repeated_runs,
    test_runs,
)
from grader.models.scaling.record import Record, Trained, path_of, read
from grader.models.scaling.sizes import Size, nearest_size
from grader.teaching.walks.progress_line import ProgressReporter

CHAPTER = ("training_flops", "compute_optimal", "fit_power_law", "bits_per_byte")
EXERCISES = (*TOKENIZER, *model_exercises(Design()), *TRAINING, *CHAPTER)


class Trainer(Protocol):
    """What the experiment needs of `Trainings`."""

    sizes: Sequence[Size]

    def train(self, run: Run, report_progress: ProgressReporter, interrupted: Callable[[], bool]) -> Trained | None: ...


@dataclass(frozen=True)
class Curve:
    """The parabola of one budget: loss = lowest + bend · (log(parameters) - best)²."""

    budget: float
    lowest: float
    bend: float
    best: float

    def loss(self, parameters: float) -> float:
        return self.lowest + self.bend * (math.log(parameters) - self.best) ** 2

    def is_inside(self, trained: Sequence[Trained]) -> bool:
        """Whether its lowest point is between the sizes that were trained."""
        sizes = [one.parameters for one in trained]
        return min(sizes) <= math.exp(self.best) <= max(sizes)


@dataclass(frozen=True)
class Law:
    """What the curves say, and what follows for the budget of the test."""

    curves: list[Curve]
    exponents: tuple[float, float]  # of parameters and of tokens
    parameters: float
    tokens: float
    power_law: tuple[float, float, float]  # loss = a + b · FLOPs^(-c), by the lowest points
    loss: float


def open_record(minutes: float, seed: int, trainings: Any) -> Record:
    """The record of an experiment that has begun, or a new one with a plan for this machine."""
    path = path_of(minutes, seed)
    if record := read(path):
        return record
    speed = trainings.measure_speed()
    return Record(path, minutes, seed, plan(minutes, speed, trainings.sizes), speed)


def run(
    record: Record,
    parts: Any,
    trainer: Trainer,
    report_progress: ProgressReporter,
    interrupted: Callable[[], bool] = lambda: False,
) -> Law | None:
    """Make the whole experiment; None if interrupted. What is in the record is not trained again."""

    def make(runs: Sequence[Run]) -> bool:
        for planned in runs:
            if not record.find(planned):
                trained = trainer.train(planned, report_progress, interrupted)
                if trained is None:
                    return False
                record.trained.append(trained)
                record.save()
        return True

    curves = curve_runs(record.first, trainer.sizes, record.seed)
    if not make([*curves, *repeated_runs(record.first, trainer.sizes, record.seed)]):
        return None
    law = find_law(record, parts)
    test, *beside = test_runs(record.first, trainer.sizes, law.parameters, record.seed)
    if not make([test]):
        return None
    for off in beside:
        if record.find(off) or record.seconds + record.speed.seconds([off]) <= record.minutes * 60:
            if not make([off]):
                return None
    return law


def find_law(record: Record, parts: Any) -> Law:
    """Fit the curves. ScaleProblem if one has no lowest point."""
    *budgets, larger = budgets_of(record.first)
    points = {budget: record.of_seed(budget) for budget in budgets}
    curves = [fit_curve(budget, trained) for budget, trained in points.items()]
    runs = [(one.budget, one.parameters, one.tokens, one.loss) for trained in points.values() for one in trained]
    exponents, predict = parts.compute_optimal(runs)
    power_law = a, b, c = parts.fit_power_law(budgets, [curve.lowest for curve in curves])
    return Law(curves, tuple(exponents), *predict(larger), power_law, a + b * larger**-c)


def fit_curve(budget: float, trained: Sequence[Trained]) -> Curve:
    logs = torch.tensor([math.log(one.parameters) for one in trained], dtype=torch.float64)
    losses = torch.tensor([one.loss for one in trained], dtype=torch.float64)
    columns = (logs - logs.mean())[:, None] ** torch.arange(3)
    start, slope, bend = torch.linalg.lstsq(columns, losses[:, None]).solution[:, 0].tolist()
    if bend <= 0:
        raise ScaleProblem(
            f"the losses at {budget:.1e} FLOPs have no lowest point, so nothing can be predicted; try another --seed "
            "or more --minutes"
        )
    return Curve(budget, start - slope**2 / (4 * bend), bend, logs.mean().item() - slope / (2 * bend))


def scatter(record: Record, sizes: Sequence[Size]) -> float:
    """The standard deviation of the loss among trainings that differ in their random numbers only."""
    repeated = (record.find(planned) for planned in repeated_runs(record.first, sizes, record.seed))
    return stdev(trained.loss for trained in repeated if trained)


def tests_of(record: Record, law: Law, sizes: Sequence[Size]) -> list[Trained]:
    """The larger training, then those beside it that were made."""
    planned = test_runs(record.first, sizes, law.parameters, record.seed)
    return [trained for run in planned if (trained := record.find(run))]


def predicted_size(law: Law, sizes: Sequence[Size]) -> Size:
    return nearest_size(sizes, law.parameters)
