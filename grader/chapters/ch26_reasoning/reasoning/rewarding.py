"""A step of training on rewards: as in chapter 17, or with corrections of chapter 26.

Both draw a group of answers to each of some sums, grade them, and make the better ones likelier. They differ in
`Recipe`: in the baseline, in which groups count, in the clip, in the average, in the penalty for moving away from the
reference model, and in the penalty for long answers.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import torch
from grader.chapters.ch17_fine_tuning.tuning.base import answer_log_probs
from grader.chapters.ch26_reasoning.reasoning.adder import Adder, checked, grades, prompts_of, set_rate
from grader.chapters.ch26_reasoning.reasoning.sums import MOST_TOKENS, NEW_DIGITS, USUAL_TOKENS, sums
from grader.models.training.trainer import ClippingOptimizer
from torch import Tensor

QUESTIONS, GROUP = 16, 8  # of a batch, and answers to each
UPDATES = 2  # with the same answers
RATE, WARMUP_STEPS = 3e-4, 10
LOW = 0.2
KL_WEIGHT = 0.01


@dataclass(frozen=True)
class Recipe:
    """How rewards train. Without arguments, with every correction."""

    leave_one_out: bool = True  # or the mean of the group, and divided by its standard deviation
    drop_equal: bool = True  # groups whose rewards are all equal
    high: float = 0.28  # how far a ratio may rise above 1
    average: str = "fixed"  # "token", "sequence"
    kl: str = "kl_loss"  # or "k3"
    penalise_length: bool = True


PLAIN = Recipe(False, False, LOW, "sequence", "k3", False)
RECIPES = {"corrected": Recipe(), "plain": PLAIN}


class Outcome(NamedTuple):
    """What a step has found before its updates."""

    reward: float  # the share of right answers
    length: float  # the mean, in tokens
    used: float  # the share of the answers that were trained on


def step_on_rewards(
    adder: Adder, start: Adder, optimizer: ClippingOptimizer, recipe: Recipe, seed: int, step: int
) -> Outcome:
    """Draw answers, grade them, and make better ones likelier. `start` is the reference model."""
    parts = adder.parts
    asked = list(islice(sums(parts, f"{seed} rewards {step}", NEW_DIGITS), QUESTIONS))
    generator = torch.Generator().manual_seed(random.Random(f"{seed} draws {step}").getrandbits(40))
    drawn = adder.draw(asked, GROUP, generator)
    right, lengths = grades(adder, asked, drawn), drawn.mask.sum(1)
    rewards = right + parts.long_answer_penalty(lengths, USUAL_TOKENS, MOST_TOKENS) if recipe.penalise_length else right
    advantages = (parts.leave_one_out_advantages if recipe.leave_one_out else parts.group_advantages)(rewards, GROUP)
    rows = parts.informative_groups(rewards, GROUP)
    outcome = Outcome(float(right.mean()), float(lengths.float().mean()), float(rows.float().mean()))
    if not rows.any():
        return outcome  # nothing can be learned from this batch, with or without the equal groups
    if not recipe.drop_equal:
        rows = torch.ones_like(rows)
    prompts, ids = prompts_of(asked)[rows.view(-1, GROUP)[:, 0]], drawn.ids[rows]
    old, mask = drawn.log_probs[rows], drawn.mask[rows]
    with torch.no_grad():
        reference = answer_log_probs(start, prompts, GROUP, ids)
    set_rate(optimizer, RATE, step, WARMUP_STEPS)
    for _ in range(UPDATES):
        log_probs = answer_log_probs(adder, prompts, GROUP, ids)
        loss = _loss(parts, recipe, log_probs, old, reference, advantages[rows], mask)
        checked(float(loss.detach()), "loss", step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return outcome


def _loss(
    parts, recipe: Recipe, log_probs: Tensor, old: Tensor, reference: Tensor, advantages: Tensor, mask: Tensor
) -> Tensor:
    if recipe == PLAIN:
        kl = parts.kl_estimate(log_probs, reference)
        return parts.policy_loss(log_probs, old, advantages, mask, LOW, kl, KL_WEIGHT, "sequence")
    length = USUAL_TOKENS if recipe.average == "fixed" else None
    loss = parts.asymmetric_policy_loss(log_probs, old, advantages, mask, LOW, recipe.high, recipe.average, length)
    if recipe.kl == "kl_loss":
        return loss + KL_WEIGHT * parts.kl_loss(log_probs, reference, mask)
    return loss + KL_WEIGHT * parts.kl_estimate(log_probs, reference)[mask].mean()
