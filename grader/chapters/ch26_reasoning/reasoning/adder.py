"""The model that adds: a small Llama of the learner's parts, and a step of its training on right answers."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from grader.chapters.ch17_fine_tuning.tuning.base import Answers, CachedReader, Reader, draw_answers, read_rows
from grader.chapters.ch26_reasoning.reasoning.sums import (
    END,
    MOST_TOKENS,
    STRAIGHT_SHARE,
    SYMBOLS,
    Sum,
    decode,
    encode,
    grade,
    sums,
)
from grader.models.training.trainer import ClippingOptimizer, NotANumber
from torch import Tensor, nn

EXERCISES = (
    "TokenEmbedding", "softmax", "causal_mask", "scaled_dot_product_attention", "split_heads", "merge_heads",
    "rope_angles", "apply_rope", "RMSNorm", "SwiGLU", "LlamaAttention", "LlamaBlock", "Llama", "cross_entropy",
    "clip_gradients", "accumulated_step", "AdamW", "is_validation", "apply_temperature", "top_k_filter",
    "top_p_filter", "sample_next_token", "answer_labels", "sequence_log_prob", "kl_estimate", "group_advantages",
    "policy_loss", "grade_answer", "leave_one_out_advantages", "informative_groups", "long_answer_penalty", "kl_loss",
    "asymmetric_policy_loss", "entropy",
)  # fmt: skip
WIDTH, HEADS, LAYERS = 64, 4, 2
BATCH_ROWS, ANSWERS_RATE, FLOOR_SHARE = 64, 3e-3, 0.05
WARMUP_STEPS, MAX_NORM = 20, 1.0
CHECKED_SUMS = 64


@dataclass
class Adder:
    """A model, and what `draw_answers` of chapter 17 needs of it."""

    parts: Any
    model: nn.Module
    end_id: int = END

    def reader(self) -> Reader:
        return CachedReader(self.model)

    def draw(self, asked: Sequence[Sum], group: int, generator: torch.Generator, temperature: float = 1.0) -> Answers:
        """`group` answers to each sum; all sums have the same number of digits."""
        return draw_answers(self, prompts_of(asked), group, MOST_TOKENS, temperature, generator)


def prompts_of(asked: Sequence[Sum]) -> Tensor:
    return torch.tensor([encode(one.question) for one in asked])


def new_adder(parts: Any, seed: int, width: int = WIDTH, layers: int = LAYERS) -> Adder:
    """An untrained model; the same seed gives the same weights."""
    torch.manual_seed(seed)
    model = parts.Llama(len(SYMBOLS), width, HEADS, HEADS, layers, 2 * width)
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.02 if "emb" in name else 1 / math.sqrt(parameter.size(1)))
    return Adder(parts, model)


def make_optimizer(adder: Adder) -> ClippingOptimizer:
    parameters = list(adder.model.parameters())
    optimizer = adder.parts.AdamW(parameters, lr=0.0, betas=(0.9, 0.95), weight_decay=0.0)
    return ClippingOptimizer(optimizer, parameters, adder.parts.clip_gradients, MAX_NORM)


def set_rate(optimizer: ClippingOptimizer, rate: float, step: int, warmup: int) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate * min((step + 1) / warmup, 1.0)


def step_on_answers(adder: Adder, optimizer: ClippingOptimizer, seed: int, step: int, share: float) -> float:
    """Train on a batch of right answers; return the loss from before the update. The learning rate falls with the
    share of this phase that is over."""
    draw, rows, targets = random.Random(f"{seed} thinks {step}"), [], []
    for one in islice(sums(adder.parts, f"{seed} answers {step}"), BATCH_ROWS):
        prompt, answer = encode(one.question), encode(one.answer(draw.random() >= STRAIGHT_SHARE))
        rows.append(prompt + answer)
        targets.append(adder.parts.answer_labels(rows[-1], [(len(prompt), len(rows[-1]))]))
    length = max(map(len, rows))  # a short row is filled up behind its end, where nothing is trained
    ids = torch.tensor([row + [END] * (length - len(row)) for row in rows])[:, :-1]
    labels = torch.tensor([row + [-100] * (length - 1 - len(row)) for row in targets])
    fallen = FLOOR_SHARE + (1 - FLOOR_SHARE) * (1 + math.cos(math.pi * share)) / 2
    set_rate(optimizer, ANSWERS_RATE * fallen, step, WARMUP_STEPS)
    loss = float(adder.parts.accumulated_step(adder.model, optimizer, [(ids, labels)]))
    adder.model.eval()
    return checked(loss, "loss", step)


def share_right(adder: Adder, seed: int, step: int, digits: int) -> float:
    """Of drawn answers to new sums of so many digits, those that are right. The sums are not held out."""
    asked = list(islice(sums(adder.parts, f"{seed} check {step}", digits), CHECKED_SUMS))
    drawn = adder.draw(asked, 2, torch.Generator().manual_seed(step))
    return float(grades(adder, asked, drawn).mean())


def grades(adder: Adder, asked: Sequence[Sum], drawn: Answers) -> Tensor:
    """1.0 for each right answer to these sums, which have equally many answers each: (B,)."""
    group = len(drawn.ids) // len(asked)
    answered = zip([one for one in asked for _ in range(group)], drawn.texts(decode), drawn.ended)
    return torch.tensor([grade(adder.parts, *each) for each in answered])


def answer_logits(adder: Adder, asked: Sequence[Sum], drawn: Answers) -> Tensor:
    """The logits of each token of answers to these sums, which have equally many answers each: (B, S, V)."""
    reader, logits = read_rows(adder.reader, prompts_of(asked))
    group = len(drawn.ids) // len(asked)
    reader.repeat(group)
    logits = logits[:, -1:].repeat_interleave(group, 0)
    return logits if drawn.ids.size(1) == 1 else torch.cat([logits, reader.read(drawn.ids[:, :-1])], 1)


def checked(value: float, name: str, step: int) -> float:
    if not math.isfinite(value):
        raise NotANumber(f"the {name} of step {step + 1} is {value}")
    return value
