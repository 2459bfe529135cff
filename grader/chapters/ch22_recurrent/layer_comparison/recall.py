"""Recall: a text of pairs, each a key with its value, and then keys alone, whose values are asked for.

A key has another value in each text, so a model cannot learn values by heart: it has to keep the pairs of this text. A
pair is one position, the sum of the embeddings of its key and its value. A question is a key with the token ASK.
"""

from __future__ import annotations

from typing import Any

import torch
from grader.chapters.ch22_recurrent.layer_comparison.models import Size, new_model
from grader.chapters.small_models import scaled_normal_
from torch import Tensor, nn

KEYS, VALUES = 64, 16
ASK = KEYS + VALUES
PAIRS = (4, 8, 16, 32, 64)  # of the tested texts
FIRST_PAIRS, FIRST_SHARE = (2, 32), 1 / 3  # in the first part of a training, the number of pairs grows
QUESTIONS = 16  # of a text; if it has fewer pairs, each key once
TESTED_TEXTS = 128  # with each number of pairs
SIZE = Size(d_model=32, n_heads=2, n_layers=4, positions="none", width=1)  # neighbouring pairs have nothing in common
IGNORED = -100


class PairEmbedding(nn.Module):
    """One position for two tokens: ids (B, 2T) -> (B, T, D)."""

    def __init__(self, embedding: nn.Module) -> None:
        super().__init__()
        self.embedding = embedding

    def forward(self, ids: Tensor) -> Tensor:
        both = self.embedding(ids)
        return both[:, 0::2] + both[:, 1::2]


def new_recaller(parts: Any, kind: str, seed: int) -> nn.Module:
    """An untrained model of pairs; the same seed gives the same weights."""
    torch.manual_seed(seed)
    model = new_model(parts, kind, ASK + 1, SIZE, tie_weights=False)
    scaled_normal_(model)
    nn.init.normal_(model.token_emb.weight)  # so that the last layer, too, can read which pair this was
    model.token_emb = PairEmbedding(model.token_emb)
    return model


def draw_pairs(share: float, generator: torch.Generator) -> int:
    """The number of pairs of the next batch, when this share of the training is over. At first it grows, so that a
    model learns what a question is; then each number of PAIRS comes equally often."""
    if share >= FIRST_SHARE:
        return PAIRS[int(torch.randint(len(PAIRS), (), generator=generator))]
    least, most = FIRST_PAIRS
    top = least + (most - least) * share / FIRST_SHARE
    return max(least, round(top * (0.5 + 0.5 * float(torch.rand((), generator=generator)))))


def draw_texts(pairs: int, texts: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Texts with so many pairs: ids (B, 2T), and targets (B, T), which are the values at the questions, else -100."""
    keys = torch.rand(texts, KEYS, generator=generator).argsort(1)[:, :pairs]
    values = KEYS + torch.randint(VALUES, (texts, pairs), generator=generator)
    asked = torch.rand(texts, pairs, generator=generator).argsort(1)[:, :QUESTIONS]
    questions, answers = keys.gather(1, asked), values.gather(1, asked)
    shown = torch.stack([keys, values], 2).flatten(1)
    ids = torch.cat([shown, torch.stack([questions, torch.full_like(questions, ASK)], 2).flatten(1)], 1)
    return ids, torch.cat([torch.full_like(values, IGNORED), answers], 1)


def share_right(model: nn.Module, pairs: int) -> float:
    """The share of right answers in texts with so many pairs, always the same texts."""
    ids, targets = draw_texts(pairs, TESTED_TEXTS, torch.Generator().manual_seed(pairs))
    model.eval()
    with torch.no_grad():
        answers = model(ids)[0].argmax(-1)  # (B, T)
    asked = targets != IGNORED
    return float((answers == targets)[asked].double().mean())
