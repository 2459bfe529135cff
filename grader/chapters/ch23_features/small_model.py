"""A small GPT of stories, its states and its loss, for labs of lesson 23."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from grader.chapters.small_models import names_of
from grader.chapters.story_model import CHAPTERS, SmallModel, Text, batch_of, train_small_model
from grader.execution.chapter_package import ChapterPackage
from torch import Tensor

ROWS = 100  # of a batch that is only read


def train_stories(chapters: ChapterPackage, seed: int, steps: int, each_step: Callable[[], None]) -> SmallModel:
    """The model, with the parts of chapters 12 and 23 too."""
    small = train_small_model(chapters, seed, steps, each_step)
    small.parts = names_of(*map(chapters.module, (*CHAPTERS, "ch12_interpretability", "ch23_features")))
    small.model.eval().requires_grad_(False)
    return small


def all_states(small: SmallModel, texts: Sequence[Text], layer: int) -> Tensor:
    """The states after this block at every token that has a next one: (N, D)."""
    found = []
    for at in range(0, len(texts), ROWS):
        inputs, targets = batch_of(small, [text.ids for text in texts[at : at + ROWS]])
        found.append(small.parts.residual_stream(small.model, inputs)[layer + 1][targets != -100])
    return torch.cat(found)


@torch.no_grad()
def mean_loss(small: SmallModel, texts: Sequence[Text]) -> float:
    inputs, targets = batch_of(small, [text.ids for text in texts])
    return float(small.parts.cross_entropy(small.model(inputs)[0], targets))
