"""A small GPT that memorises twenty sentences, made of the given chapters."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import torch
from grader.chapters.corpora import SENTENCES
from grader.execution.chapter_package import ChapterPackage
from torch import nn


@dataclass(frozen=True)
class Chapters:
    """The chapters that training uses, from one package."""

    tokenizer: ModuleType
    models: ModuleType
    training: ModuleType

    @classmethod
    def of(cls, package: ChapterPackage) -> Chapters:
        return cls(package.module("ch01_tokenizer"), package.module("ch07_models"), package.module("ch08_training"))


def learn_sentences(chapters: Chapters, epochs: int = 150) -> tuple[nn.Module, object, list[float]]:
    """A GPT that was trained on the twenty sentences in each epoch; (model, tokenizer, losses)."""
    training = chapters.training
    tokenizer = chapters.tokenizer.WordTokenizer(["<pad>", *chapters.tokenizer.build_vocab(SENTENCES)])
    windows = [window for sentence in SENTENCES for window in training.next_token_pairs(tokenizer.encode(sentence), 32)]
    torch.manual_seed(0)
    model = chapters.models.GPT(chapters.models.GPTConfig(vocab_size=tokenizer.vocab_size, max_len=16, d_model=64, n_layers=4))
    records = training.fit(model, training.AdamW(model.parameters(), lr=3e-3), lambda: [training.collate(windows)], epochs)
    return model, tokenizer, [record["train_loss"] for record in records]


@torch.no_grad()
def continued(model: nn.Module, tokenizer, beginning: str, words: int) -> str:
    """The likeliest next word, again and again."""
    model.eval()
    ids = torch.tensor([tokenizer.encode(beginning)])
    for _ in range(words):
        ids = torch.cat([ids, model(ids)[0][:, -1].argmax(-1, keepdim=True)], dim=1)
    return tokenizer.decode(ids[0].tolist())
