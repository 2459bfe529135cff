"""A small GPT that has read the beginnings of the stories. Each lab of lesson 17 trains one, and then copies of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from grader.chapters.small_models import names_of, train_with_warmup
from grader.chapters.stories.corpus import story
from grader.execution.chapter_package import ChapterPackage
from grader.models.tokenizers import WordModelTokenizer
from torch import Tensor, nn

CHAPTERS = ("ch01_tokenizer", "ch07_models", "ch08_training", "ch09_sampling", "ch17_fine_tuning")
STORIES, TRAINING, HELD_OUT = 6000, 4000, 500
ROWS, LR, WARMUP = 32, 6e-3, 20

Window = tuple[Sequence[int], Sequence[int]]  # inputs, targets


@dataclass(frozen=True)
class Text:
    """Three sentences of a story as ids: a question of two sentences, and the third, which is the answer."""

    question: list[int]  # from the start token on
    answer: list[int]  # up to the end token

    @property
    def ids(self) -> list[int]:
        return [*self.question, *self.answer]


@dataclass
class SmallModel:
    parts: Any
    tokenizer: WordModelTokenizer
    texts: list[Text]
    held_out: list[Text]
    model: nn.Module


def train_small_model(
    chapters: ChapterPackage,
    seed: int,
    steps: int,
    each_step: Callable[[], None],
    tokenizer: WordModelTokenizer | None = None,
) -> SmallModel:
    """Train a GPT on the stories of this seed. With another model's tokenizer, it has the same ids."""
    parts = names_of(*map(chapters.module, CHAPTERS))
    sentences = [_three_sentences(story(seed, number)) for number in range(STORIES)]
    tokenizer = tokenizer or WordModelTokenizer.of_texts(parts, (" ".join(three) for three in sentences))
    start, end = tokenizer.start_ids[0], tokenizer.end_id
    assert end is not None  # a tokenizer of words has one
    texts = [
        Text([start, *tokenizer.encode(question)], [*tokenizer.encode(answer), end])
        for question, answer in dict.fromkeys((" ".join(three[:2]), three[2]) for three in sentences if len(three) == 3)
    ]
    torch.manual_seed(seed)
    longest = max(len(text.ids) for text in texts)
    sizes = {"d_model": 64, "n_heads": 2, "n_layers": 2, "dropout": 0.0}
    model = parts.GPT(parts.GPTConfig(tokenizer.vocab_size, 2 * longest, **sizes))
    small = SmallModel(parts, tokenizer, texts[:TRAINING], texts[TRAINING:][:HELD_OUT], model)
    train(small, model, [text.ids for text in small.texts], steps, LR, seed, each_step, ROWS)
    return small


def _three_sentences(text: str) -> list[str]:
    """The first sentences of a story, of which there may be fewer."""
    sentences, words = [], list[str]()
    for word in text.split():
        words.append(word)
        if word.rstrip('"')[-1] in ".!?":
            sentences.append(" ".join(words))
            words = []
    return list(islice(sentences, 3))


def train(
    small: SmallModel,
    model: nn.Module,
    texts: Sequence[Sequence[int]],
    steps: int,
    lr: float,
    seed: int,
    each_step: Callable[[], None],
    rows: int = ROWS // 2,
) -> None:
    """Train what is not frozen in the model to write these texts."""
    parts, generator = small.parts, torch.Generator().manual_seed(seed)
    optimizer = parts.AdamW(trained_parameters(model), lr=lr, betas=(0.9, 0.98))
    draws = (torch.randint(len(texts), (rows,), generator=generator).tolist() for _ in range(steps))
    batches = (batch_of(small, [texts[i] for i in drawn]) for drawn in draws)
    train_with_warmup(parts, model, optimizer, batches, steps, WARMUP, each_step)


def batch_of(small: SmallModel, texts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    return small.parts.collate([(ids[:-1], ids[1:]) for ids in texts])


def trained_parameters(model: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


@torch.no_grad()
def perplexity(small: SmallModel, model: nn.Module, texts: Sequence[Sequence[int]]) -> float:
    inputs, targets = batch_of(small, texts)
    return math.exp(small.parts.cross_entropy(model(inputs)[0], targets))


def update(small: SmallModel, model: nn.Module, optimizer: Any, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    small.parts.clip_gradients(trained_parameters(model), 1.0)
    optimizer.step()
