"""Lab bounds: what the bounds of the clip do to the entropy, and to a right answer that is rare."""

from __future__ import annotations

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

CHAPTERS = ("ch08_training", "ch26_reasoning")
NONE = 1e6  # an upper bound that is never reached; the lower one is 1, because no ratio is below 0
BOUNDS = ((0.2, 0.2), (0.2, 0.28), (0.2, 0.5), (0.2, NONE), (1.0, 0.2), (1.0, NONE))
QUESTIONS, GROUP, UPDATES, RATE = 64, 16, 8, 0.05
FAVOURITE = (0.5, *[0.5 / 7] * 7)  # the probabilities of the answers, before the training
RARE = (0.02, 0.58, *[0.05] * 8)  # the right one is first
HALF, MOST_BATCHES = 0.5, 300

Reward = Callable[[Tensor, torch.Generator], Tensor]


def coin(rewards: Tensor, generator: torch.Generator) -> Tensor:
    """Rewards that depend on nothing: there is nothing to learn from them."""
    return (torch.rand(len(rewards), generator=generator) < 0.5).float()


def honest(rewards: Tensor, generator: torch.Generator) -> Tensor:
    return rewards


def train_table(
    parts: Any, table: Table, bounds: tuple[float, float], reward: Reward, generator: torch.Generator
) -> Iterator[None]:
    """Train on a batch each time, with UPDATES updates for the same answers."""
    optimizer = parts.AdamW([table.logits], lr=RATE, betas=(0.9, 0.95), weight_decay=0.0)
    while True:
        answers, rewards = table.draw(GROUP, generator)
        advantages = parts.leave_one_out_advantages(reward(rewards, generator), GROUP)
        old = table.log_probs(answers).detach()
        everywhere = torch.ones_like(old, dtype=torch.bool)
        for _ in range(UPDATES):
            loss = parts.asymmetric_policy_loss(table.log_probs(answers), old, advantages, everywhere, *bounds)
            [table.logits.grad] = torch.autograd.grad(loss, [table.logits])
            optimizer.step()
        yield


def mean_entropy(parts: Any, table: Table) -> float:
    logits = table.logits.detach()[None]
    return float(parts.entropy(logits, torch.ones(logits.shape[:2], dtype=torch.bool)))


def report_reasoning_bounds(chapters: ChapterPackage, seed: int, *, batches: int = 60) -> Iterator[PrintedTable | str]:
    """Lesson 26: the clip's bounds, the entropy of the policy, and a right answer that is rare.

    The policy is a table of logits for 64 questions. First the rewards are coins: nothing can be learned, and the
    entropy changes only because of the bounds and of random draws. Then one answer is right, with a probability of
    2 % before the training: how many batches until it has 50 %? Each batch is used for 8 updates.
    """
    parts = names_of(*map(chapters.module, CHAPTERS))
    rows = []
    with show_progress("training", len(BOUNDS)) as step:
        for bounds in BOUNDS:
            generator, table = torch.Generator().manual_seed(seed), Table.of(FAVOURITE, QUESTIONS)
            before = mean_entropy(parts, table)
            training = train_table(parts, table, bounds, coin, generator)
            for _ in range(batches):
                next(training)
            rare = Table.of(RARE, QUESTIONS)
            training, needed = train_table(parts, rare, bounds, honest, torch.Generator().manual_seed(seed)), 0
            while rare.right() < HALF and needed < MOST_BATCHES:
                next(training)
                needed += 1
            low, high = ("none" if bound in (1.0, NONE) else f"{bound:g}" for bound in bounds)
            rows.append([f"{low} / {high}", f"{before:.2f}", f"{mean_entropy(parts, table):.2f}", str(needed)])
            step()
    columns = ("low / high", "entropy before", f"after {batches} batches", "batches to 50 %")
    yield result_table("Rewards by coin, and a rare right answer", columns, rows)
