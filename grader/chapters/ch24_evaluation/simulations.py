"""Lab questions: how many questions tell two models apart, and which intervals hold what they promise.

Here the truth is known, because both models are coins. A coin may know how hard a question is: then two models fail at
the same questions, and the questions of one group are right or wrong together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import NormalDist
from typing import Any

import torch
from grader.chapters.small_models import names_of
from grader.console.output import show_progress
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import result_table
from rich.table import Table
from torch import Tensor

WEAKER, DIFFERENCE = 0.6, 0.1  # of the probabilities of a right answer
BETTER = WEAKER + DIFFERENCE
SHARED = 0.8  # of the variance of an answer, that the difficulty of the question explains
COUNTS = (50, 100, 200)
GROUP, GROUPS = 5, (5, 10, 20, 40)  # questions of a group
WITHIN = 0.6  # of the variance, that the group explains
LEVEL, MAX_CHANCE = 0.95, 0.05


def answers(accuracy: float, common: Tensor, share: float, generator: torch.Generator) -> list[float]:
    """Right and wrong answers. `common` is how hard each question is, which explains this share of the variance."""
    own = torch.randn(common.shape, generator=generator)
    hard = share**0.5 * common + (1 - share) ** 0.5 * own
    return (hard < NormalDist().inv_cdf(accuracy)).float().tolist()  # type: ignore[no-any-return]


def report_evaluation_questions(chapters: ChapterPackage, seed: int, *, repeats: int = 300) -> Iterator[Table | str]:
    """Lesson 24: how often a test tells two models apart, and how often an interval contains the truth.

    One model is right with the probability 0.6, the other with 0.7. They answer separate questions, or the same ones;
    the same ones are equally hard for both, or each model finds other questions hard. Each share is that of `--repeats`
    simulated evaluations. Then one model answers groups of 5 questions that go together.
    """
    parts = names_of(chapters.module("ch24_evaluation"))
    generator = torch.Generator().manual_seed(seed)
    needed = parts.questions_needed(WEAKER, DIFFERENCE)
    yield f"questions_needed({WEAKER}, {DIFFERENCE}) = {needed}"
    rows = []
    with show_progress("comparing two models", repeats * (len(COUNTS) + 1)) as step:
        for count in (*COUNTS, needed):
            rows.append([str(count), *compared(parts, count, repeats, generator, step)])
    columns = ("questions", "separate", "same, unlike", "same, alike")
    yield result_table("The difference is found", columns, rows)
    rows = []
    with show_progress("drawing intervals", repeats * len(GROUPS)) as step:
        for groups in GROUPS:
            rows.append([f"{groups} groups of {GROUP}", *covered(parts, groups, repeats, generator, step)])
    names = ("questions", "by question", "width", "by group", "width")
    yield result_table(f"A {LEVEL:.0%} interval contains the truth", names, rows)


def compared(
    parts: Any, count: int, repeats: int, generator: torch.Generator, step: Callable[[], None]
) -> tuple[str, ...]:
    """How often p is below 0.05: with separate questions, and with the same questions, unlike and alike."""
    found = [0, 0, 0]
    for _ in range(repeats):
        common = torch.randn(count, generator=generator)
        other = answers(BETTER, torch.randn(count, generator=generator), SHARED, generator)
        found[0] += p_of_separate(answers(WEAKER, common, SHARED, generator), other) < MAX_CHANCE
        for place, share in ((1, 0.0), (2, SHARED)):
            pair = (answers(accuracy, common, share, generator) for accuracy in (WEAKER, BETTER))
            found[place] += parts.paired_test(*pair, generator=generator) < MAX_CHANCE
        step()
    return tuple(f"{share / repeats:.0%}" for share in found)


def p_of_separate(a: list[float], b: list[float]) -> float:
    """The test of two shares that questions_needed has in mind: normal, with two sides."""
    n, (p, q) = len(a), (sum(each) / len(each) for each in (a, b))
    deviation = ((p * (1 - p) + q * (1 - q)) / n) ** 0.5
    return 2 * NormalDist().cdf(-abs(p - q) / deviation) if deviation else float(p == q)


def covered(
    parts: Any, groups: int, repeats: int, generator: torch.Generator, step: Callable[[], None]
) -> tuple[str, ...]:
    """How often an interval has the true probability in it, and its mean width: without clusters, and with them."""
    names = [group for group in range(groups) for _ in range(GROUP)]
    inside, width = [0, 0], [0.0, 0.0]
    for _ in range(repeats):
        common = torch.randn(groups, generator=generator).repeat_interleave(GROUP)
        values = answers(BETTER, common, WITHIN, generator)
        for place, clusters in enumerate((None, names)):
            low, high = parts.bootstrap_interval(values, LEVEL, 500, generator, clusters)
            inside[place] += low <= BETTER <= high
            width[place] += high - low
        step()
    return tuple(text for i in range(2) for text in (f"{inside[i] / repeats:.0%}", f"{width[i] / repeats:.2f}"))
