"""Held-out texts, and the loss of a model on them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from grader.models.checkpoint import Loaded
from grader.models.training.corpora import (
    STORIES,
    collate_by_length,
    count_targets,
    divide,
    encode_paragraphs,
    fingerprint_of_text,
    held_out_stories,
    story_windows,
)
from grader.models.training.own_text import TextProblem, read_paragraphs
from grader.teaching.walks.parts import hidden_prints

MOST_CHARACTERS = 24_000  # of a held-out text; more would only take longer
BATCH_ROWS = 16


@dataclass(frozen=True)
class HeldOut:
    """Texts that a training on this corpus does not read."""

    name: str
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Score:
    """The loss of one model on the held-out text."""

    loss: float  # nats a token, the mean
    tokens: int
    characters: int

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.loss, 700.0))

    @property
    def bits_per_character(self) -> float:
        """The loss in a unit that does not depend on the tokenizer."""
        return self.loss * self.tokens / self.characters / math.log(2)


def same_corpus(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two trainings read the same text. A story is held out by its text, so the seed makes no difference."""
    return one["kind"] == other["kind"] and one.get("fingerprint") == other.get("fingerprint")


def held_out_of(corpus: dict[str, Any], parts: Any) -> HeldOut:
    """The held-out texts of the corpus that a record describes. TextProblem if its file is gone or has changed."""
    if corpus["kind"] == STORIES:
        stories = held_out_stories(parts, corpus["seed"])
        return HeldOut(f"{len(stories)} held-out stories", tuple(stories))
    path = Path(corpus["path"])
    paragraphs, _ = read_paragraphs(path)
    if fingerprint_of_text(paragraphs) != corpus["fingerprint"]:
        raise TextProblem(f"{path} has changed since the training")
    chosen: list[str] = []
    for paragraph in divide(paragraphs, parts.is_validation)[1]:
        if chosen and sum(map(len, chosen)) + len(paragraph) > MOST_CHARACTERS:
            break
        chosen.append(paragraph)
    return HeldOut(f"the held-out part of {path.name}", tuple(chosen))


def score(loaded: Loaded, parts: Any, held_out: HeldOut, device: torch.device) -> Score:
    """The mean loss of the next token, measured with the learner's `perplexity`. The model reads each text as it read
    those of its training."""
    with hidden_prints():
        if loaded.record["corpus"]["kind"] == STORIES:
            windows = story_windows(parts, loaded.tokenizer, held_out.texts, loaded.design.max_len)
        else:
            windows = parts.next_token_pairs(encode_paragraphs(loaded.tokenizer, held_out.texts), loaded.design.max_len)
        collated = collate_by_length(parts, windows, -(-len(windows) // BATCH_ROWS))
        batches = [(inputs.to(device), targets.to(device)) for inputs, targets in collated]
        loss = math.log(parts.perplexity(loaded.model, batches))
    return Score(loss, count_targets(batches), sum(map(len, held_out.texts)))
