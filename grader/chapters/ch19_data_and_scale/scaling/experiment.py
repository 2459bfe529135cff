"""Trains what is missing, fits the laws with the learner's functions, predicts, and tests the prediction."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import mean, variance
from typing import Any

import torch
from grader.chapters.ch19_data_and_scale.scaling.plan import Plan, Run, ScaleProblem, make_plan
from grader.chapters.ch19_data_and_scale.scaling.record import Record, Trained, path_of, read
from grader.chapters.ch19_data_and_scale.scaling.trainings import DESIGN, Trainings
from grader.console.output import ProgressReporter
from grader.models.own_parts import TRAINING, model_exercises, tokenizer_exercises
from grader.teaching.walks.parts import hidden_prints

MINUTES = 15.0  # usually
CHAPTER = ("training_flops", "compute_optimal", "fit_power_law", "bits_per_byte")
EXERCISES = (*tokenizer_exercises("words"), *model_exercises(DESIGN), *TRAINING, *CHAPTER)


@dataclass(frozen=True)
class Curve:
    """The parabola of one budget: loss = lowest + bend · (log(parameters) - best)²."""

    trained: list[Trained]
    lowest: float
    bend: float
    best: float


@dataclass(frozen=True)
class Found:
    """The curves, what they predict for the budget of the test, and the tests."""

    curves: list[Curve]
    exponents: tuple[float, float]  # of parameters and of tokens
    parameters: float
    tokens: float
    power_law: tuple[float, float, float]  # loss = a + b · FLOPs^(-c), by the lowest points
    loss: float
    scatter: float  # the standard deviation of a loss between seeds
    tests: list[Trained]  # the larger training, then the trainings of other sizes that were made


def run(
    trainings: Trainings,
    minutes: float | None,
    report_progress: ProgressReporter,
    announce: Callable[[str], None] = lambda sentence: None,
) -> Found:
    """Make the experiment, or the rest of it. Each training is saved when it is finished. Without minutes, it takes as
    long as usual, or longer on a slow machine."""
    may_take_longer, minutes = minutes is None, minutes or MINUTES
    path, seed = path_of(minutes, trainings.seed), trainings.seed
    if record := read(path):
        plan = Plan(record.first, seed, record.speed, trainings.sizes)
    else:
        plan = make_plan(minutes, seed, trainings.measure_speed(), trainings.sizes, may_take_longer)
        longer = f" instead of {minutes:g}, because even the smallest trainings take so long"
        instead = longer if plan.minutes > minutes else ""
        announce(f"At its present speed, this machine needs about {math.ceil(plan.minutes)} minutes{instead}.")
        record = Record(path, plan.first, plan.speed)

    def make(runs: Sequence[Run]) -> None:
        for planned in runs:
            if not record.find(planned):
                record.trained.append(trainings.train(planned, report_progress))
                record.save()

    make(list(chain(*plan.curves())))
    with hidden_prints():
        found = fit(plan, record, trainings.parts)
    test, *beside = plan.tests(found.parameters)
    make([test])
    for planned in beside:
        spent = sum(trained.seconds for trained in record.trained)
        if spent + plan.seconds([planned]) <= 60 * minutes:
            make([planned])
    found.tests.extend(record.find_all([test, *beside]))
    return found


def fit(plan: Plan, record: Record, parts: Any) -> Found:
    """Everything but the tests. ScaleProblem if a curve has no lowest point."""
    trained, (*budgets, larger) = [record.find_mean(runs) for runs in plan.curves()], plan.budgets
    runs = [(one.budget, one.parameters, one.tokens, one.loss) for one in trained]
    try:
        exponents, predict = parts.compute_optimal(runs)
    except ValueError as problem:  # a parabola has no lowest point
        raise ScaleProblem(f"{str(problem).removesuffix('.')}; try another --seed or more --minutes") from None
    curves = [fit_curve([one for one in trained if one.budget == budget]) for budget in budgets]
    power_law = a, b, c = parts.fit_power_law(budgets, [curve.lowest for curve in curves])
    loss, pairs = a + b * larger**-c, [record.find_all(runs) for runs in plan.curves()]
    scatter = math.sqrt(mean(variance(one.loss for one in pair) for pair in pairs))
    parameters, tokens = predict(larger)
    return Found(curves, exponents, parameters, tokens, power_law, loss, scatter, [])


def fit_curve(trained: list[Trained]) -> Curve:
    logs = torch.tensor([math.log(one.parameters) for one in trained], dtype=torch.float64)
    losses = torch.tensor([[one.loss] for one in trained], dtype=torch.float64)
    columns = (logs - logs.mean())[:, None] ** torch.arange(3)
    start, slope, bend = torch.linalg.lstsq(columns, losses).solution[:, 0].tolist()
    return Curve(trained, start - slope**2 / (4 * bend), bend, logs.mean().item() - slope / (2 * bend))
