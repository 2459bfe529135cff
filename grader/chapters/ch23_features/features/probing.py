"""Probes on the states after every block, and texts that a direction between two classes has steered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from grader.chapters.ch23_features.features import state_cache
from grader.chapters.ch23_features.features.examining import mean_loss
from grader.chapters.ch23_features.features.opened import HeldOut, Opened
from grader.chapters.ch23_features.features.subjects import Subject
from torch import Tensor

FEWEST_SENTENCES, BATCH_SENTENCES = 32, 16
FOLDS = 4
EARLY_SHARES = (0.0, 0.05, 0.15, 0.5, 1.0, 0.3, 0.75)  # of the blocks: after so many, probes are fitted first
FEWEST_LAYERS = 5  # that are probed, also where time is short
FEWEST_STRENGTHS = 3
WRITTEN_TOKENS, SHOWN_PROMPTS = 12, 2


@torch.no_grad()
def sentence_states(parts: Any, opened: Opened, sentences: Sequence[str]) -> Tensor:
    """The states at the last token of each sentence, after the embeddings and after every block: (N, n_layers + 1, D).

    Short rows are filled up behind their end, which the states before it cannot see."""
    rows = [opened.ids(sentence) for sentence in sentences]
    length = max(map(len, rows))
    ids = torch.tensor([row + [0] * (length - len(row)) for row in rows])
    ends = torch.tensor([len(row) - 1 for row in rows])
    stream = parts.residual_stream(opened.model, ids)
    return torch.stack([state[torch.arange(len(rows)), ends] for state in stream], 1)


def known_states(opened: Opened, subject: Subject) -> tuple[Tensor, str | None]:
    """The states of the first sentences that a published model's cache has, and a sentence if the cache is damaged."""
    sentences = [text for text, _ in subject.sentences]
    states, damage = state_cache.read(opened, sentences) if opened.kind == "published" else (None, None)
    width = opened.model.token_emb.weight.size(1)  # type: ignore[union-attr]
    return (torch.empty(0, opened.n_layers + 1, width) if states is None else states), damage


def more_states(parts: Any, opened: Opened, subject: Subject, states: Tensor) -> Tensor:
    """These states, and those of some more sentences."""
    sentences = [text for text, _ in subject.sentences[len(states) :][:BATCH_SENTENCES]]
    return torch.cat([states, sentence_states(parts, opened, sentences)])


def keep_states(opened: Opened, subject: Subject, states: Tensor) -> str | None:
    """Write a published model's states into its cache; a sentence if that is not possible."""
    if opened.kind != "published":
        return None
    return state_cache.write(opened, [text for text, _ in subject.sentences], states)


def probed_layers(n_layers: int) -> list[int]:
    """The states 0 to n_layers in the order in which they are probed: some from all over the model, then the others."""
    first = [round(share * n_layers) for share in EARLY_SHARES]
    return list(dict.fromkeys([*first, *range(n_layers + 1)]))


def probe(parts: Any, states: Tensor, labels: Tensor, seed: int) -> tuple[float, float]:
    """Accuracy and control of a probe on states (N, D), which are scaled before."""
    accuracy, control = parts.probe_score(scaled(states), labels, FOLDS, torch.Generator().manual_seed(seed))
    return float(accuracy), float(control)


def scaled(states: Tensor) -> Tensor:
    """Each number has mean 0 over the states, and all of them variance 1 on average."""
    centred = states - states.mean(0)
    return centred / centred.square().mean().sqrt().clamp_min(1e-6)


class Steering:
    """Texts and losses with a direction added to the stream after one block."""

    def __init__(
        self, parts: Any, opened: Opened, subject: Subject, layer: int, states: Tensor, labels: Tensor, plain: HeldOut
    ) -> None:
        self.parts, self.opened, self.subject, self.layer, self.plain = parts, opened, subject, layer, plain
        positive, negative = (states[labels == label][:, layer + 1] for label in (1, 0))
        self.distance = float((positive.mean(0) - negative.mean(0)).norm())
        self.direction: Tensor = parts.mean_direction(positive, negative)
        self.size = float(states[:, layer + 1].norm(dim=1).mean())
        self.words = [self._first_tokens(words) for words in subject.words]

    def _first_tokens(self, words: Sequence[str]) -> Tensor:
        space = " " if self.opened.kind == "published" else ""
        tokenizer = self.opened.tokenizer
        return torch.tensor(sorted({list(tokenizer.encode(space + word))[0] for word in words}))

    def measure(self, strength: float, writes: bool = True) -> dict[str, Any]:
        """At this strength: the log odds of the words of the two classes after the prompts, the loss on a plain text,
        and what the model writes, always with its likeliest token."""
        prompts = [self.opened.ids(prompt) for prompt in self.subject.prompts]
        with self.parts.steer(self.opened.model, self.layer, self.direction, strength * self.distance):
            odds = sum(map(self._log_odds, prompts)) / len(prompts)
            loss = mean_loss(self.opened, self.plain)
            texts = [self._write(prompt) for prompt in prompts[:SHOWN_PROMPTS] if writes]
        return {"strength": strength, "log_odds": odds, "loss": loss, "texts": texts}

    @torch.no_grad()
    def _log_odds(self, prompt: list[int]) -> float:
        logits = self.opened.logits(torch.tensor([prompt]))[0, -1]
        positive, negative = (torch.logsumexp(logits[words], 0) for words in self.words)
        return float(positive - negative)

    @torch.no_grad()
    def _write(self, prompt: list[int]) -> str:
        ids = list(prompt)
        for _ in range(WRITTEN_TOKENS):
            ids.append(int(self.opened.logits(torch.tensor([ids]))[0, -1].argmax()))
            if ids[-1] == getattr(self.opened.tokenizer, "end_id", None):
                break
        return str(self.opened.tokenizer.decode(ids))
