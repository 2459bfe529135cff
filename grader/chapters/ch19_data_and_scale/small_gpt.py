"""A small GPT, trained on rows that a lab chooses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from grader.chapters.small_models import names_of, train_with_warmup
from grader.chapters.stories.corpus import story
from grader.execution.chapter_package import ChapterPackage
from grader.models.tokenizers import WordModelTokenizer
from torch import nn

CHAPTERS = ("ch01_tokenizer", "ch07_models", "ch08_training", "ch19_data_and_scale")
ROWS, LR, WARMUP, MAX_LEN, WIDTH = 8, 4e-3, 40, 128, 64
HELD_OUT = 100

Ids = list[int]


@dataclass
class Stories:
    """Different stories as ids, with their start and end."""

    parts: Any
    tokenizer: WordModelTokenizer
    training: list[Ids]
    held_out: list[Ids]


def read_stories(chapters: ChapterPackage, seed: int, count: int) -> Stories:
    """So many different stories to train on, and some that are not among them."""
    parts = names_of(*map(chapters.module, CHAPTERS))
    texts = list(dict.fromkeys(story(seed, number) for number in range(2 * (count + HELD_OUT))))
    tokenizer = WordModelTokenizer.of_texts(parts, texts)
    start, end = tokenizer.start_ids[0], tokenizer.end_id
    assert end is not None  # a tokenizer of words has one
    encoded = [[start, *tokenizer.encode(text), end] for text in texts[: count + HELD_OUT]]
    return Stories(parts, tokenizer, encoded[HELD_OUT:], encoded[:HELD_OUT])


def train(stories: Stories, rows: Iterator[Ids], steps: int, seed: int, each_step: Callable[[], None]) -> nn.Module:
    """A new model, trained on the next rows in each step."""
    parts = stories.parts
    torch.manual_seed(seed)
    config = parts.GPTConfig(stories.tokenizer.vocab_size, MAX_LEN, d_model=WIDTH, n_heads=2, n_layers=2, dropout=0.0)
    model = parts.GPT(config)
    optimizer = parts.AdamW(model.parameters(), lr=LR, betas=(0.9, 0.98))
    batches = (collate(parts, list(islice(rows, ROWS))) for _ in range(steps))
    train_with_warmup(parts, model, optimizer, batches, steps, WARMUP, each_step)
    return model


@torch.no_grad()
def loss_on(stories: Stories, model: nn.Module, texts: Sequence[Ids]) -> float:
    """The mean loss of a token of these texts."""
    inputs, targets = collate(stories.parts, texts)
    return float(stories.parts.cross_entropy(model(inputs)[0], targets))


def collate(parts: Any, texts: Sequence[Ids]) -> Any:
    return parts.collate([(ids[:-1], ids[1:]) for ids in texts])
