"""Evaluation: scores, intervals, tests, calibration and ratings."""

from __future__ import annotations

from typing import Any

import torch
from grader.chapters.ch24_evaluation.pictures import DIFFERENCES, FIRST_MODELS
from grader.execution.proxy import Implementation
from grader.teaching.show.panel_makers import expect_pair, make_bars, make_chart
from grader.teaching.show.panels import Panel
from grader.verdict.comparing import shaped

CHOICES = {" yes": [-1.2], " not at all": [-0.9, -0.4, -0.3]}
COUNTS = (10, 20, 30, 50, 100, 200, 300, 500, 1000)  # of questions
FACTORS = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # by which logits are too large
GAMES = ((0, 3, 0, 1), (1, 0, 3, 2), (0, 1, 0, 3), (1, 0, 1, 0))


def choice_score(side: Implementation) -> list[Panel]:
    panels: list[Panel] = []
    for kind in ("sum", "token", "byte"):
        scores = [side.choice_score(log_probs, len(choice), kind) for choice, log_probs in CHOICES.items()]
        panels.append(make_bars(f"kind {kind}", [choice.strip() for choice in CHOICES], scores, "score"))
    return panels


def pass_at_k(side: Implementation) -> list[Panel]:
    attempts = range(1, 21)
    lines = {f"{right} of 20 right": [side.pass_at_k(20, right, k) for k in attempts] for right in (1, 3, 10)}
    return [make_chart("the chance that one of k answers is right", attempts, lines, "k", "pass@k")]


def bootstrap_interval(side: Implementation) -> list[Panel]:
    lines: dict[str, list[float]] = {"upper end": [], "lower end": []}
    for count in COUNTS:
        right = round(0.6 * count)
        values = [1.0] * right + [0.0] * (count - right)
        ends = expect_pair(side.bring(seeded_interval)(side.bootstrap_interval, values), "two numbers")
        lines["lower end"].append(ends[0])
        lines["upper end"].append(ends[1])
    return [make_chart("the interval of a score of 60 %", COUNTS, lines, "questions", "accuracy", near=0.11)]


def seeded_interval(interval: Any, values: list[float]) -> Any:
    """Compute an interval with fixed draws; this source is sent to the implementation's side."""
    return interval(values, generator=torch.Generator().manual_seed(0))


def paired_test(side: Implementation) -> list[Panel]:
    charts: list[Panel] = []
    for count in (6, 10, 18):
        shares, values = [], []
        for better in range(count + 1):
            a = [float(i < better) for i in range(count)]
            shares.append(better / count)
            values.append(side.paired_test(a, [1 - value for value in a]))
        title = f"two models differ at {count} questions"
        charts.append(make_chart(title, shares, {"paired_test": values}, "share that A has right", "p"))
    return charts


def questions_needed(side: Implementation) -> list[Panel]:
    shown = [d for d in DIFFERENCES if d >= 0.04]
    lines = {f"first model {first}": [side.questions_needed(first, d) for d in shown] for first in FIRST_MODELS}
    return [make_chart("questions that tell two models apart", shown, lines, "difference", "questions")]


def _answers(factor: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits (400, 3) that are `factor` times what they should be, and targets."""
    generator = torch.Generator().manual_seed(1)
    logits = 1.5 * torch.randn(400, 3, generator=generator)
    targets = torch.multinomial(logits.softmax(1), 1, generator=generator)[:, 0]
    return factor * logits, targets


def calibration_error(side: Implementation) -> list[Panel]:
    errors = []
    for factor in FACTORS:
        logits, targets = _answers(factor)
        confidence, answer = logits.softmax(1).max(1)
        errors.append(side.calibration_error(confidence, answer == targets))
    title = "a model whose logits are too small or too large"
    return [make_chart(title, FACTORS, {"calibration_error": errors}, "factor of the logits", "error")]


def fit_temperature(side: Implementation) -> list[Panel]:
    lines = {"fit_temperature": [side.fit_temperature(*_answers(factor)) for factor in FACTORS]}
    return [make_chart("the temperature that corrects it", FACTORS, lines, "factor of the logits", "temperature")]


def bradley_terry(side: Implementation) -> list[Panel]:
    wins = torch.tensor(GAMES).float()
    ratings = shaped(side.bradley_terry(wins), (4,), "the tensor of ratings")
    return [
        make_bars("games won", list("ABCD"), wins.sum(1), "wins"),
        make_bars("ratings", list("ABCD"), ratings, "rating"),
    ]
