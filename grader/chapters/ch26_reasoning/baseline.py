"""Lab baseline: what the group's own mean does to the gradient, and to a training."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from grader.chapters.ch26_reasoning.bandit import Table
from grader.chapters.small_models import names_of
from grader.console.output import show_progress
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import result_table
from rich.table import Table as PrintedTable
from torch import Tensor

CHAPTERS = ("ch08_training", "ch17_fine_tuning", "ch26_reasoning")
SIZES = (2, 4, 8, 16)
SHARE_RIGHT = 0.25  # of the answers, before the training
QUESTIONS, ENOUGH, MOST_STEPS = 64, 0.9, 3000
RATES = {"SGD": 6.0, "AdamW": 0.02}

Baseline = Callable[[Tensor, int], Tensor]


def baselines(parts: Any) -> dict[str, Baseline]:
    return {
        "none": lambda rewards, size: rewards,
        "mean": lambda rewards, size: parts.group_advantages(rewards, size, normalise=False),
        "others": parts.leave_one_out_advantages,
    }


def expected_gradient(baseline: Baseline, size: int, share: float = SHARE_RIGHT) -> tuple[float, float]:
    """The gradient of the mean reward by the logit of the right answer, as a group estimates it: its expectation and
    its standard deviation, exact, as shares of the true gradient, share · (1 - share).

    With two possible answers only the number of right ones in the group counts, so all groups can be enumerated.
    """
    mean = square = 0.0
    for right in range(size + 1):
        rewards = torch.tensor([1.0] * right + [0.0] * (size - right))
        slopes = rewards - share  # of log p(answer) by that logit: 1 - share, or -share
        estimate = float((baseline(rewards, size) * slopes).mean()) / (share * (1 - share))
        chance = math.comb(size, right) * share**right * (1 - share) ** (size - right)
        mean, square = mean + chance * estimate, square + chance * estimate**2
    return mean, math.sqrt(max(square - mean**2, 0.0))


def steps_needed(parts: Any, optimizer: str, baseline: Baseline, size: int, seed: int) -> int:
    """How many steps a table takes until ENOUGH of its answers are right."""
    table, generator = Table.of((SHARE_RIGHT, 1 - SHARE_RIGHT), QUESTIONS), torch.Generator().manual_seed(seed)
    rate = RATES[optimizer]
    adamw = parts.AdamW([table.logits], lr=rate, betas=(0.9, 0.95), weight_decay=0.0)
    for step in range(MOST_STEPS):
        if table.right() >= ENOUGH:
            return step
        answers, rewards = table.draw(size, generator)
        loss = -(baseline(rewards, size)[:, None] * table.log_probs(answers)).mean()
        [gradient] = torch.autograd.grad(loss, [table.logits])
        if optimizer == "SGD":
            table.logits.data -= rate * gradient
        else:
            table.logits.grad = gradient
            adamw.step()
    return MOST_STEPS


def report_reasoning_baseline(chapters: ChapterPackage, seed: int) -> Iterator[PrintedTable | str]:
    """Lesson 26: the gradient with the group's mean, with the mean of the others, and without a baseline.

    A question has a right and a wrong answer, and the policy is a table of logits. "mean" subtracts the group's mean,
    "others" the mean of the others. The expectation and the standard deviation of the estimated gradient are exact, as
    shares of the true gradient. Then 64 such questions are trained on until 90 % of the answers are right, once with
    SGD, and once with AdamW.
    """
    parts = names_of(*map(chapters.module, CHAPTERS))
    named = baselines(parts)
    rows = [
        [str(size), *(f"{number:.2f}" for one in named.values() for number in expected_gradient(one, size))]
        for size in SIZES
    ]
    columns = ("answers", *(f"{name}{what}" for name in named for what in ("", " ±")))
    yield result_table("The estimated gradient, the true one is 1; ± is the standard deviation", columns, rows)
    with show_progress("training", len(SIZES) * len(RATES) * len(named)) as step:
        rows = []
        for size in SIZES:
            row = [str(size)]
            for optimizer in RATES:
                for one in named.values():
                    row.append(str(steps_needed(parts, optimizer, one, size, seed)))
                    step()
            rows.append(row)
    columns = ("answers", *(f"{optimizer}, {name}" for optimizer in RATES for name in named))
    yield result_table("Steps until 90 % of the answers are right", columns, rows)
