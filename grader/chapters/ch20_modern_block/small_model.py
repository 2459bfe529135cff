"""A small GPT and the stories that it reads, one behind the other. Each lab of lesson 20 trains some."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from grader.chapters.small_models import names_of, train_with_warmup
from grader.chapters.stories.corpus import story
from grader.execution.chapter_package import ChapterPackage
from grader.models.tokenizers import WordModelTokenizer
from torch import Tensor, nn

CHAPTERS = ("ch01_tokenizer", "ch04_positions_in_attention", "ch07_models", "ch08_training", "ch20_modern_block")
STORIES, HELD_OUT = 3000, 300
PEAK, WARMUP = 6e-3, 20
BATCH_TOKENS = 2048


@dataclass(frozen=True)
class Stories:
    parts: Any
    vocab_size: int
    training: Tensor  # ids of all stories, one behind the other
    held_out: Tensor

    def rows(self, length: int, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Inputs and targets from random places."""
        starts = torch.randint(len(self.training) - length, (count, 1), generator=generator)
        rows = self.training[starts + torch.arange(length + 1)]
        return rows[:, :-1], rows[:, 1:]


def read_stories(chapters: ChapterPackage, seed: int) -> Stories:
    parts = names_of(*map(chapters.module, CHAPTERS))
    texts = [story(seed, number) for number in range(STORIES)]
    tokenizer = WordModelTokenizer.of_texts(parts, texts)
    end = [] if tokenizer.end_id is None else [tokenizer.end_id]
    ids = [torch.tensor([*tokenizer.start_ids, *tokenizer.encode(text), *end]) for text in texts]
    return Stories(parts, tokenizer.vocab_size, torch.cat(ids[HELD_OUT:]), torch.cat(ids[:HELD_OUT]))


def train(
    stories: Stories,
    model: nn.Module,
    optimizer: Any,
    steps: int,
    length: int,
    seed: int,
    each_step: Callable[[], None],
) -> None:
    """Train on rows of this length."""
    generator = torch.Generator().manual_seed(seed)
    batches = (stories.rows(length, BATCH_TOKENS // length, generator) for _ in range(steps))
    train_with_warmup(stories.parts, model, optimizer, batches, steps, WARMUP, each_step)
