"""What the autoencoder has learned, on held-out stories: the share of variance, dead features, readings, the texts that
switch a feature on, and the loss of the model without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import zip_longest
from typing import Any

import torch
from grader.chapters.ch23_features.features.opened import (
    PADDING,
    HeldOut,
    Models,
    Opened,
    pieces_of,
    token_names,
)
from grader.chapters.ch23_features.features.readings import (
    LEAST_ACTIVE,
    Reading,
    find_readings,
    random_directions,
    threshold,
    tokens_at,
)
from torch import Tensor, nn
from torch.nn import functional as F

MOST_STORIES, FEWEST_STORIES = 400, 12
MOST_ACTIVATIONS = 30_000_000  # numbers in the memory: tokens times features
SHOWN_READ, SHOWN_UNREAD, SHOWN_RANDOM = 12, 6, 3  # features on the page, and random directions for comparison
FEWEST_SHOWN = 4  # of the features, where time is short
CONTEXTS, BEFORE, AFTER = 4, 7, 4  # shown of a feature, and tokens of each
SEARCHED_CONTEXTS = 40  # of which those with other words than the ones before are shown
ABLATED_STORIES = 48  # for the loss without a feature

Replace = Callable[[Tensor], Tensor]


@contextmanager
def replaced(opened: Opened, layer: int, replace: Replace) -> Iterator[None]:
    """Inside, the model goes on from other states after this block."""
    block: nn.Module = opened.model.blocks[layer]  # type: ignore[index]
    handle = block.register_forward_hook(lambda module, inputs, output: replace(output))
    try:
        yield
    finally:
        handle.remove()


@torch.no_grad()
def token_losses(opened: Opened, texts: HeldOut) -> Tensor:
    """The loss at every token of the texts, (N,)."""
    logits = opened.logits(texts.inputs)
    losses = F.cross_entropy(logits.transpose(1, 2), texts.targets, ignore_index=PADDING, reduction="none")
    return losses[texts.mask]


def mean_loss(opened: Opened, texts: HeldOut) -> float:
    rows = range(0, len(texts.inputs), ABLATED_STORIES)
    return float(torch.cat([token_losses(opened, texts.part(slice(at, at + ABLATED_STORIES))) for at in rows]).mean())


class Examiner:
    """Everything that is measured on the same held-out stories."""

    def __init__(self, models: Models, autoencoder: Any, scale: float, layer: int, texts: HeldOut, seed: int) -> None:
        self.models, self.autoencoder, self.scale, self.layer, self.seed = models, autoencoder, scale, layer, seed
        most = max(MOST_ACTIVATIONS // autoencoder.W_dec.size(0) // texts.inputs.size(1), FEWEST_STORIES)
        self.texts = texts = texts.part(slice(most))
        rows = range(0, len(texts.inputs), ABLATED_STORIES)
        with torch.no_grad():
            pieces = [self._states(texts.part(slice(at, at + ABLATED_STORIES))) for at in rows]
            self.states = torch.cat(pieces)  # (N, D)
            self.reconstruction, self.active = autoencoder(self.states / scale)
        self.names = token_names(models.stories.tokenizer, texts.inputs)

    def _states(self, texts: HeldOut) -> Tensor:
        stream = self.models.parts.residual_stream(self.models.stories.model, texts.inputs)
        return stream[self.layer + 1][texts.mask]  # type: ignore[no-any-return]

    def summary(self) -> dict[str, Any]:
        """Numbers about the autoencoder as a whole."""
        parts, stories, texts = self.models.parts, self.models.stories, self.texts
        mean = self.states.mean(0)
        shares = (self.active > 0).float().mean(0)
        losses = {"model": mean_loss(stories, texts)}
        with replaced(stories, self.layer, self._reconstruct):
            losses["reconstruction"] = mean_loss(stories, texts)
        with replaced(stories, self.layer, lambda x: mean.expand_as(x)):
            losses["mean"] = mean_loss(stories, texts)
        return {
            "stories": len(texts.inputs),
            "tokens": len(self.states),
            "explained": float(parts.explained_variance(self.states / self.scale, self.reconstruction)),
            "dead": int(parts.dead_features(self.active, len(self.active)).sum()),
            "active_a_token": float((self.active > 0).sum(1).float().mean()),
            "median_share": float(shares.median()),
            "losses": losses,
        }

    def readings(self) -> dict[str, Any]:
        """Which features have a reading, and what random directions get."""
        counts = (self.active > 0).sum(0)
        alive = (counts >= LEAST_ACTIVE).nonzero()[:, 0]
        self.alive = alive.tolist()
        self.random = random_directions(self.states, counts[alive] / len(self.states), self.seed)
        tokens, vocab_size = tokens_at(self.texts), self.models.stories.tokenizer.vocab_size
        self.found = dict(zip(self.alive, find_readings(self.active[:, alive], tokens, vocab_size)))
        self.control = find_readings(self.random, tokens, vocab_size)
        self.least = threshold(self.control) if self.control else 1.0
        read = [one.score for one in self.found.values() if one.score > self.least]
        return {
            "examined": len(self.alive),
            "read": len(read),
            "threshold": self.least,
            "scores": sorted(one.score for one in self.found.values()),
            "random_scores": sorted(one.score for one in self.control),
        }

    def chosen(self) -> list[int]:
        """The features to show: those with the best readings and some of those without one, in turn."""
        best = sorted(self.alive, key=lambda i: -self.found[i].score)
        read = [i for i in best if self.found[i].score > self.least][:SHOWN_READ]
        unread = [i for i in self.alive if self.found[i].score <= self.least]
        order = torch.randperm(len(unread), generator=torch.Generator().manual_seed(self.seed)).tolist()
        others = [unread[i] for i in order[:SHOWN_UNREAD]]
        pairs = zip_longest(read, others)
        return [feature for pair in pairs for feature in pair if feature is not None]

    def describe(self, feature: int) -> dict[str, Any]:
        """A feature with its contexts, and the loss of the model without it."""
        active, reading = self.active[:, feature], self.found[feature]
        shown = self._shown(active, reading) | {"number": feature, "read": reading.score > self.least}
        return shown | {"without": self._loss_without(feature)}

    def describe_random(self, number: int) -> dict[str, Any]:
        """One of the random directions, with its contexts."""
        return self._shown(self.random[:, number], self.control[number])

    def _shown(self, active: Tensor, reading: Reading) -> dict[str, Any]:
        words = [self.names.get(token, str(token)) for token in reading.tokens]
        return {
            "share": float((active > 0).float().mean()),
            "reading": asdict(reading) | {"tokens": words},
            "contexts": self._contexts(active),
        }

    def _contexts(self, active: Tensor) -> list[list[tuple[str, float]]]:
        """Where it is most active: tokens, each with how active it is there, from 0 to 1."""
        texts, largest = self.texts, max(float(active.max()), 1e-9)
        table = torch.zeros(texts.inputs.shape)
        table[texts.mask] = active
        places = torch.arange(table.numel()).view(table.shape)  # instead of ids, so that a place can be looked up
        contexts: dict[str, list[tuple[str, float]]] = {}
        for _, around, _ in self.models.parts.top_contexts(table, places, SEARCHED_CONTEXTS, BEFORE, AFTER):
            row, start = divmod(around[0], table.size(1))
            end = min(start + len(around), int(texts.mask[row].sum()))
            pieces = pieces_of(self.models.stories.tokenizer, texts.inputs[row].tolist())[start:end]
            shares = (table[row, start:end] / largest).tolist()
            contexts.setdefault("".join(pieces), list(zip(pieces, shares)))
            if len(contexts) == CONTEXTS:
                break
        return list(contexts.values())

    def _loss_without(self, feature: int) -> dict[str, float]:
        """The mean loss where the feature is active, with and without it, in some stories that switch it on."""
        texts = self.texts
        table = torch.zeros(texts.inputs.shape)
        table[texts.mask] = self.active[:, feature]
        rows = (table > 0).any(1).nonzero()[:ABLATED_STORIES, 0]
        part = texts.part(rows)
        at = table[rows][part.mask] > 0
        before = token_losses(self.models.stories, part)[at]
        with replaced(self.models.stories, self.layer, lambda x: self._remove(x, feature)):
            after = token_losses(self.models.stories, part)[at]
        return {"tokens": int(at.sum()), "before": float(before.mean()), "after": float(after.mean())}

    @torch.no_grad()
    def _remove(self, x: Tensor, feature: int) -> Tensor:
        amount = self.autoencoder.encode(x / self.scale)[..., feature, None]
        return x - self.scale * amount * self.autoencoder.W_dec[feature]

    @torch.no_grad()
    def _reconstruct(self, x: Tensor) -> Tensor:
        return self.scale * self.autoencoder(x / self.scale)[0]  # type: ignore[no-any-return]
