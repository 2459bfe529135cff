"""The pictures of the lesson that show numbers of the reference."""

from __future__ import annotations

from types import ModuleType

import torch
from grader.teaching.drawing import curves

DIFFERENCES = (0.01, 0.012, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3)
FIRST_MODELS = (0.5, 0.6, 0.7)
LEVELS = (0.998, 0.98, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.02)
TEXTS, QUESTIONS, UNDERSTOOD = 10, 10, 6  # questions about each text; all or none of them are right


def ch24_evaluation(chapter: ModuleType) -> str:
    """Draw how many questions tell two models apart, over their difference."""
    lines = {
        f"the first model has {first}": [(d, chapter.questions_needed(first, d)) for d in DIFFERENCES]
        for first in FIRST_MODELS
    }
    title = "Questions that tell two models apart, four times of five"
    return curves(lines, title, x_name="difference of the accuracies", y_name="questions", log=True, log_x=True)


def ch24_resamples(chapter: ModuleType) -> str:
    """Draw the share of resamples below each mean, for 100 questions that are drawn one by one or text by text."""
    values = [float(text < UNDERSTOOD) for text in range(TEXTS) for _ in range(QUESTIONS)]
    texts = [text for text in range(TEXTS) for _ in range(QUESTIONS)]
    lines = {}
    for name, clusters in (("single questions", None), ("whole texts", texts)):
        points: list[tuple[float, float]] = []
        for level in LEVELS:  # the same resamples each time, and two of their quantiles
            generator = torch.Generator().manual_seed(0)
            ends = chapter.bootstrap_interval(values, level, generator=generator, clusters=clusters)
            points += zip(ends, ((1 - level) / 2, (1 + level) / 2))
        lines[name] = sorted(points)
    title = "60 of 100 right: the means of resamples"
    return curves(lines, title, x_name="mean", y_name="share of resamples below")
