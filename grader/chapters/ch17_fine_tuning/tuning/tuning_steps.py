"""The steps of a tuning: one on right answers, and one on rewards."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import torch
from grader.chapters.ch17_fine_tuning.tuning.adapters import values_of
from grader.chapters.ch17_fine_tuning.tuning.base import (
    Base,
    answer_log_probs,
    draw_answers,
    read_rows,
    shared_length,
)
from grader.chapters.ch17_fine_tuning.tuning.tasks import Question, Task, questions
from grader.chapters.run_file import Values
from grader.models.training.trainer import ClippingOptimizer, NotANumber
from torch import Tensor, nn

BATCH_ROWS = 16
WARMUP_STEPS = 5
MAX_NORM = 1.0
CLIP, KL_WEIGHT = 0.2, 0.05
TEMPERATURE = 1.0


def make_optimizer(base: Base, adapters: dict[str, nn.Parameter]) -> ClippingOptimizer:
    parameters = list(adapters.values())
    optimizer = base.parts.AdamW(parameters, lr=0.0, betas=(0.9, 0.95), weight_decay=0.0)
    return ClippingOptimizer(optimizer, parameters, base.parts.clip_gradients, MAX_NORM)


def _set_rate(optimizer: ClippingOptimizer, peak: float, step: int) -> None:
    for group in optimizer.param_groups:
        group["lr"] = peak * min((step + 1) / WARMUP_STEPS, 1.0)


class _Rows(nn.Module):
    """The model as accumulated_step calls it: ids (B, T) -> logits of the positions that the rows do not share."""

    def __init__(self, base: Base) -> None:
        super().__init__()
        self.base, self.model = base, base.model

    def forward(self, ids: Tensor) -> Tensor:
        return read_rows(self.base.reader, ids)[1]


def step_on_answers(base: Base, task: Task, optimizer: ClippingOptimizer, seed: int, step: int) -> float:
    """Train on a batch of right answers; return the loss from before the update."""
    asked = questions(task, base.parts, f"{seed} answers {step}", held_out=False)
    rows, targets = [], []
    for _, question in zip(range(BATCH_ROWS), asked):
        prompt = base.prompt_ids(question.prompt)
        answer = [*base.answer_ids(question.answer), base.end_id]
        rows.append(prompt + answer)
        targets.append(base.parts.answer_labels(rows[-1], [(len(prompt), len(prompt) + len(answer))]))
    length = max(map(len, rows))  # a short row is filled up behind its end, where nothing is trained
    ids = torch.tensor([row + [base.end_id] * (length - len(row)) for row in rows])[:, :-1]
    labels = torch.tensor([row + [-100] * (length - 1 - len(row)) for row in targets])
    labels = labels[:, shared_length(ids) :]
    _set_rate(optimizer, task.answers_rate, step)
    loss = float(base.parts.accumulated_step(_Rows(base), optimizer, [(ids, labels)]))
    base.model.eval()
    return _checked(loss, "loss", step)


def step_on_rewards(
    base: Base, task: Task, adapters: dict[str, nn.Parameter], start: Values, optimizer: ClippingOptimizer, seed: int,
    step: int, n_prompts: int, stopped: Callable[[int], bool] = lambda ended: False,
) -> tuple[float, float] | None:  # fmt: skip
    """Draw answers, grade them, and make better ones likelier; return the mean reward, and the mean KL from `start`.
    None, and nothing changes, if drawing was stopped.

    Where all answers to a question have the same reward, there is nothing to learn: the update leaves them out.
    """
    parts, asked = base.parts, same_length_batch(base, task, f"{seed} rewards {step}", n_prompts)
    prompts = torch.tensor([base.prompt_ids(question.prompt) for question in asked])
    generator = torch.Generator().manual_seed(random.Random(f"{seed} draws {step}").getrandbits(40))
    drawn = draw_answers(base, prompts, task.group, task.most_tokens, TEMPERATURE, generator, stopped)
    if not drawn.are_whole(task.most_tokens):
        return None
    graded = zip([one for one in asked for _ in range(task.group)], drawn.texts(base.decode), drawn.ended)
    rewards = torch.tensor([task.grade(parts, question, text, ended) for question, text, ended in graded])
    advantages = parts.group_advantages(rewards, task.group)
    with torch.no_grad(), values_of(adapters, start):
        reference = answer_log_probs(base, prompts, task.group, drawn.ids)
    kl = float(parts.kl_estimate(drawn.log_probs, reference)[drawn.mask].mean())

    useful = advantages.view(-1, task.group).ne(0).any(1)  # (P,)
    if useful.any():
        rows = useful.repeat_interleave(task.group)
        log_probs = answer_log_probs(base, prompts[useful], task.group, drawn.ids[rows])
        loss = parts.policy_loss(
            log_probs, drawn.log_probs[rows], advantages[rows], drawn.mask[rows], CLIP,
            parts.kl_estimate(log_probs, reference[rows]), KL_WEIGHT,
        )  # fmt: skip
        _checked(float(loss.detach()), "loss", step)
        _set_rate(optimizer, task.rewards_rate, step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return float(rewards.mean()), _checked(kl, "KL", step)


def same_length_batch(base: Base, task: Task, seed: str, n_prompts: int) -> list[Question]:
    """Questions whose prompts have as many tokens as that of the first, so that their rows need no padding."""
    batch: list[Question] = []
    for question in questions(task, base.parts, seed, held_out=False):
        batch.append(question)
        if len({len(base.prompt_ids(one.prompt)) for one in (batch[0], question)}) > 1:
            batch.pop()
        if len(batch) == n_prompts:
            break
    return batch


def _checked(value: float, name: str, step: int) -> float:
    if not math.isfinite(value):
        raise NotANumber(f"the {name} of step {step + 1} is {value}")
    return value
