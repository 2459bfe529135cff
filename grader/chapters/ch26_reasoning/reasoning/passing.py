"""pass@k on held-out questions, and what two tests say about learning.

pass@k is the probability that at least one of k answers to a question is right, on average over the questions. With c
right ones among n drawn answers, 1 - C(n - c, k) / C(n, k) estimates it without bias.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from grader.chapters.ch17_fine_tuning.tuning.evaluation import chance_of_difference
from grader.chapters.ch26_reasoning.reasoning.adder import Adder, answer_logits, grades
from grader.chapters.ch26_reasoning.reasoning.sums import NEW_DIGITS, Sum, decode, sums

DRAWS = 32  # answers to each question
ATTEMPTS = (1, 2, 4, 8, 16, 32)  # the k of pass@k
MOST_QUESTIONS, FEWEST_QUESTIONS = 96, 8
SHOWN_QUESTIONS = 3


@dataclass(frozen=True)
class Evaluation:
    """The answers to held-out questions, each time to the same ones in the same order."""

    step: int  # of training on rewards
    right: list[int]  # of the DRAWS answers to each question
    entropy: float
    length: float  # the mean, in tokens
    samples: list[str]  # the first answer to each of the first questions

    def passed(self, attempts: int) -> float:
        """pass@attempts."""
        return sum(pass_at(attempts, right, DRAWS) for right in self.right) / len(self.right)

    def joined(self, other: Evaluation) -> Evaluation:
        """This, and the answers to further questions."""
        mine, theirs = len(self.right), len(other.right)

        def mean(one: float, another: float) -> float:
            return (mine * one + theirs * another) / (mine + theirs)

        entropy, length = mean(self.entropy, other.entropy), mean(self.length, other.length)
        samples = (self.samples + other.samples)[:SHOWN_QUESTIONS]
        return Evaluation(self.step, self.right + other.right, entropy, length, samples)


def pass_at(k: int, right: int, count: int) -> float:
    """The probability that k of `count` answers, of which `right` are right, have a right one."""
    return 1 - math.comb(count - right, k) / math.comb(count, k)


def held_out_sums(parts: Any) -> list[Sum]:
    """Different held-out sums with NEW_DIGITS digits: always the same ones, whatever the seed of a run."""
    found: dict[str, Sum] = {}
    for one in sums(parts, "evaluation", NEW_DIGITS, held_out=True):
        found.setdefault(one.question, one)
        if len(found) == MOST_QUESTIONS:
            return list(found.values())
    raise AssertionError("unreachable")


QUESTIONS_AT_ONCE = 8


def evaluate(
    adder: Adder,
    asked: Sequence[Sum],
    step: int,
    stopped: Callable[[], bool] = lambda: False,
    note: Callable[[int], None] = lambda answered: None,
) -> Evaluation | None:
    """Draw DRAWS answers to each of these sums, the same at each test as far as the model is the same; None if it was
    stopped on the way. `note` is called with the number of questions that are answered."""
    whole: Evaluation | None = None
    generator = torch.Generator().manual_seed(0)
    questions = iter(asked)
    while some := list(islice(questions, QUESTIONS_AT_ONCE)):
        if stopped():
            return None
        drawn = adder.draw(some, DRAWS, generator)
        right = grades(adder, some, drawn).view(-1, DRAWS).sum(1).int().tolist()
        length = float(drawn.mask.sum(1).float().mean())
        texts = drawn.texts(decode)[::DRAWS]
        with torch.no_grad():
            entropy = float(adder.parts.entropy(answer_logits(adder, some, drawn), drawn.mask))
        part = Evaluation(step, right, entropy, length, texts[:SHOWN_QUESTIONS])
        whole = whole.joined(part) if whole else part
        note(len(whole.right))
    return whole


# ---- two tests


@dataclass(frozen=True)
class Change:
    """How many questions got better and worse between two tests, and how probable that is if nothing has changed."""

    better: int
    worse: int

    @property
    def chance(self) -> float:
        """By the exact sign test."""
        return chance_of_difference(self.better, self.worse) if self.better + self.worse else 1.0


def of_each(before: Evaluation, after: Evaluation) -> Change:
    """Which questions have more right answers than before, and which have fewer."""
    pairs = list(zip(before.right, after.right, strict=True))
    return Change(sum(new > old for old, new in pairs), sum(new < old for old, new in pairs))


def of_solved(before: Evaluation, after: Evaluation) -> Change:
    """Which questions were solved by none of the answers and are solved by at least one now, and the other way."""
    pairs = list(zip(before.right, after.right, strict=True))
    return Change(sum(not old and new > 0 for old, new in pairs), sum(old > 0 and not new for old, new in pairs))
