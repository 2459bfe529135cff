"""Lab length: what the average of the loss does to the length of right and of wrong answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from grader.chapters.small_models import names_of
from grader.console.output import show_progress
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import result_table
from rich.table import Table as PrintedTable
from torch import Tensor, nn

CHAPTERS = ("ch08_training", "ch26_reasoning")
AVERAGES = ("sequence", "token", "fixed")
PENALTIES = (None, (12, 24))  # soft and hard limit of long_answer_penalty
MOST_TOKENS, STOP = 32, 1 / 8  # of an answer; the probability to stop after each token, before the training
QUESTIONS, GROUP, UPDATES, RATE = 16, 16, 2, 0.02


@dataclass
class Lengths:
    """A policy that only decides when an answer ends: a logit for each kind of answer and each place.

    Whether an answer is right is decided by a coin before its first token. The policy sees the coin, as a model often
    notices that it is lost, and cannot change it.
    """

    logits: nn.Parameter  # (2, MOST_TOKENS): of stopping after this token, for wrong and for right answers

    @classmethod
    def new(cls) -> Lengths:
        stop = torch.full((2, MOST_TOKENS), STOP)
        return cls(nn.Parameter(stop.logit()))

    @torch.no_grad()
    def draw(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Which answers are right (B,), and how many tokens they have (B,). The last token always ends an answer."""
        right = torch.rand(count, generator=generator) < 0.5
        stops = torch.rand(count, MOST_TOKENS, generator=generator) < self.logits.sigmoid()[right.long()]
        stops[:, -1] = True
        return right, stops.int().argmax(1) + 1

    def log_probs(self, right: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Of each decision to go on or to stop (B, MOST_TOKENS), and where an answer has decisions."""
        places = torch.arange(MOST_TOKENS)
        logits = self.logits[right.long()]
        stops = places == lengths[:, None] - 1
        log_probs = nn.functional.logsigmoid(torch.where(stops, logits, -logits))
        return log_probs.masked_fill(places == MOST_TOKENS - 1, 0.0), places < lengths[:, None]


def train_lengths(
    parts: Any, average: str, penalty: tuple[int, int] | None, batches: int, seed: int
) -> tuple[float, float]:
    """The mean length of right and of wrong answers after the training."""
    policy, generator = Lengths.new(), torch.Generator().manual_seed(seed)
    optimizer = parts.AdamW([policy.logits], lr=RATE, betas=(0.9, 0.95), weight_decay=0.0)
    for _ in range(batches):
        right, lengths = policy.draw(QUESTIONS * GROUP, generator)
        rewards = right.float() + (parts.long_answer_penalty(lengths, *penalty) if penalty else 0.0)
        advantages = parts.leave_one_out_advantages(rewards, GROUP)
        old = policy.log_probs(right, lengths)[0].detach()
        for _ in range(UPDATES):
            log_probs, mask = policy.log_probs(right, lengths)
            loss = parts.asymmetric_policy_loss(
                log_probs, old, advantages, mask, average=average, length=1 / STOP if average == "fixed" else None
            )
            [policy.logits.grad] = torch.autograd.grad(loss, [policy.logits])
            optimizer.step()
    right, lengths = policy.draw(20_000, generator)
    return float(lengths[right].float().mean()), float(lengths[~right].float().mean())


def report_reasoning_length(chapters: ChapterPackage, seed: int, *, batches: int = 150) -> Iterator[PrintedTable | str]:
    """Lesson 26: three averages of the loss, and the length of right and of wrong answers.

    The policy is a table that only decides when an answer ends. Half of the answers are right, whatever their length:
    no length is better than another one. With the penalty, tokens beyond the 12th cost reward, and the 24th all of it.
    """
    parts = names_of(*map(chapters.module, CHAPTERS))
    rows = [["before", "-", *(f"{float(length):.1f}" for length in _before(seed))]]
    with show_progress("training", len(AVERAGES) * len(PENALTIES)) as step:
        for penalty in PENALTIES:
            for average in AVERAGES:
                lengths = train_lengths(parts, average, penalty, batches, seed)
                rows.append([average, "yes" if penalty else "no", *(f"{length:.1f}" for length in lengths)])
                step()
    columns = ("average", "penalty", "right, tokens", "wrong, tokens")
    yield result_table(f"After {batches} batches", columns, rows)


def _before(seed: int) -> tuple[float, float]:
    right, lengths = Lengths.new().draw(20_000, torch.Generator().manual_seed(seed))
    return float(lengths[right].float().mean()), float(lengths[~right].float().mean())
