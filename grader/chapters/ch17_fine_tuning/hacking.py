"""A reward that can be cheated: the number of animals in a text. Policy gradients find the cheat."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from grader.chapters.story_model import SmallModel, train_small_model, update
from grader.console.output import show_progress
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import result_table
from rich.table import Table
from torch import Tensor, nn

ANIMALS = "dog cat rabbit pony bird duck mouse frog squirrel owl fox hedgehog"
KL_WEIGHTS = (0.0, 0.1, 0.3, 1.0)
SHOWN_STEPS = (0, 5, 10, 15, 20, 30)
PROMPT, NEW = 3, 24  # tokens: the start token and two words, and what is written behind them
QUESTIONS, GROUP = 6, 8
UPDATES_A_BATCH = 2
LR = 1e-3


class Written(NamedTuple):
    """Texts that a model has written behind prompts."""

    ids: Tensor  # (B, PROMPT + n)
    mask: Tensor  # (B, n), True at what is written, up to the first end token
    rewards: Tensor  # (B,)


def write(small: SmallModel, model: nn.Module, prompts: Tensor, generator: torch.Generator) -> Written:
    end = small.tokenizer.end_id
    ids = small.parts.generate(model, prompts, NEW, eos_id=end, generator=generator)
    new = ids[:, PROMPT:]
    ends = new == end
    mask = ends.cumsum(dim=1) - ends.long() == 0
    animals = torch.tensor(small.tokenizer.encode(ANIMALS))
    return Written(ids, mask, torch.isin(new, animals).float().sum(dim=1))


def log_probs(model: nn.Module, written: Written) -> Tensor:
    """The log probability of each written token, (B, n)."""
    logits = model(written.ids[:, :-1])[0][:, PROMPT - 1 :]
    return torch.log_softmax(logits, dim=-1).gather(-1, written.ids[:, PROMPT:, None])[..., 0]


def prompts_of(small: SmallModel, count: int, generator: torch.Generator, held_out: bool = False) -> Tensor:
    texts = small.held_out if held_out else small.texts
    return torch.tensor([texts[i].ids[:PROMPT] for i in torch.randint(len(texts), (count,), generator=generator)])


def train_policy(small: SmallModel, kl_weight: float, steps: int, seed: int) -> Iterator[tuple[int, nn.Module]]:
    """Train a copy of the model for the reward; give it before each step and at the end, with the steps so far."""
    parts, policy, generator = small.parts, copy.deepcopy(small.model), torch.Generator().manual_seed(seed)
    optimizer = parts.AdamW(policy.parameters(), lr=LR, betas=(0.9, 0.98), weight_decay=0.0)
    for step in range(steps):
        yield step, policy
        prompts = prompts_of(small, QUESTIONS, generator).repeat_interleave(GROUP, dim=0)
        written = write(small, policy, prompts, generator)
        advantages = parts.group_advantages(written.rewards, GROUP)
        with torch.no_grad():
            old, reference = log_probs(policy, written), log_probs(small.model, written)
        for _ in range(UPDATES_A_BATCH):
            now = log_probs(policy, written)
            kl = parts.kl_estimate(now, reference)
            loss = parts.policy_loss(now, old, advantages, written.mask, kl=kl, kl_weight=kl_weight)
            update(small, policy, optimizer, loss)
    yield steps, policy


def examine(small: SmallModel, judge: nn.Module, policy: nn.Module, seed: int) -> tuple[list[str], str]:
    """What the policy writes behind held-out prompts: reward, KL to the reference, perplexity for the judge, different
    words; and one of the texts."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        written = write(small, policy, prompts_of(small, 64, generator, held_out=True), generator)
        own, reference, judged = (log_probs(model, written)[written.mask] for model in (policy, small.model, judge))
    words = [len(set(row[mask].tolist())) / len(row[mask]) for row, mask in zip(written.ids[:, PROMPT:], written.mask)]
    found = [
        f"{written.rewards.mean():.2f}",
        f"{(own - reference).mean():.2f}",
        f"{math.exp(-judged.mean()):,.1f}",
        f"{sum(words) / len(words):.0%}",
    ]
    return found, small.tokenizer.decode(written.ids[0].tolist())


def report_tuning_hacking(
    chapters: ChapterPackage, seed: int, *, pretraining: int = 300, steps: int = 30
) -> Iterator[Table | str]:
    """Lesson 17: a model is rewarded for animals in its stories, and a judge measures what becomes of the stories.

    The judge is a second model, trained on other stories of the same kind, which the reward does not use. `KL` is the
    mean of log p(policy) - log p(reference) over the written tokens.
    """
    columns = ("animals", "KL", "judge's perplexity", "different words")
    with show_progress("training", 2 * pretraining + len(KL_WEIGHTS) * steps) as step:
        small = train_small_model(chapters, seed, pretraining, step)
        judge = train_small_model(chapters, seed + 1, pretraining, step, small.tokenizer)
        by_step, by_weight, samples = [], [], []
        for weight in KL_WEIGHTS:
            for done, policy in train_policy(small, weight, steps, seed):
                if weight == 0 and done in SHOWN_STEPS:
                    by_step.append([str(done), *examine(small, judge.model, policy, seed)[0]])
                if done:
                    step()
            found, text = examine(small, judge.model, policy, seed)
            by_weight.append([f"{weight:g}", *found])
            samples.append(f"KL weight {weight:g}: {text}")
    yield result_table("Without a KL penalty", ("step", *columns), by_step)
    yield result_table(f"After {steps} steps", ("KL weight", *columns), by_weight)
    yield from samples
