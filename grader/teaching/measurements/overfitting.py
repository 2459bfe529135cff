"""Lesson 8: the training and the validation loss of a small GPT that sees the same fourteen sentences again and again.

The model is a GPT of 4 layers and width 64, the optimizer AdamW with a learning rate of 0.003, and all sentences are in one batch. Words are
tokens. The last part trains on all twenty sentences, and shows the lowest loss that is possible there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.corpora import SENTENCES, least_loss
from grader.teaching.measurements._running import make_table, run_measurement
from rich.table import Table

FRACTION, EPOCHS, SHOWN, ALL_EPOCHS = 0.3, 100, (1, 10, 20, 40, 100), 150
PROMPT = "the cat sat on the"


@dataclass(frozen=True)
class Curves:
    """What one run finds; the losses are by epoch."""

    held_out: int  # sentences for validation
    training: list[float]
    validation: list[float]
    judged: list[str]  # the answer of judge_fit after each epoch
    unknown_words: int  # of the held-out sentences
    memorised: list[float]  # training losses on all sentences
    least: float  # the lowest possible loss on all sentences
    least_seen: float  # the same on those that are not held out
    next_word: str  # after PROMPT, by the model that has memorised all sentences


def measure(words: ModuleType, models: ModuleType, training: ModuleType, seed: int = 0) -> Curves:
    """Train a model on some of the sentences, and one on all; the arguments are chapters 1, 7 and 8."""
    tokenizer = words.WordTokenizer(["<pad>", *words.build_vocab(SENTENCES)])

    def batch(texts: list[str]) -> Any:
        return training.collate([pair for text in texts for pair in training.next_token_pairs(tokenizer.encode(text), 16)])

    def fit(texts: list[str], epochs: int, validate: Any = None) -> tuple[Any, list[dict[str, float]]]:
        torch.manual_seed(seed)
        model = models.GPT(models.GPTConfig(tokenizer.vocab_size, max_len=16, d_model=64, n_heads=4, n_layers=4))
        data = batch(texts)
        return model, training.fit(model, training.AdamW(model.parameters(), lr=3e-3), lambda: [data], epochs, validate)

    held_out = [text for text in SENTENCES if training.is_validation(text, FRACTION)]
    seen = [text for text in SENTENCES if text not in held_out]
    unknown = {word for text in held_out for word in text.split()} - {word for text in seen for word in text.split()}
    held = batch(held_out)
    _, epochs = fit(seen, EPOCHS, lambda model: math.log(training.perplexity(model, [held])))
    train, validation = ([epoch[name] for epoch in epochs] for name in ("train_loss", "val_loss"))
    judged = [training.judge_fit(train[: n + 1], validation[: n + 1]) for n in range(EPOCHS)]
    model, all_epochs = fit(list(SENTENCES), ALL_EPOCHS)
    with torch.no_grad():
        answer = model.eval()(torch.tensor([tokenizer.encode(PROMPT)]))
    logits = answer[0] if isinstance(answer, tuple) else answer
    word = tokenizer.decode([int(logits[0, -1].argmax())])
    return Curves(len(held_out), train, validation, judged, len(unknown), [epoch["train_loss"] for epoch in all_epochs], least_loss(SENTENCES), least_loss(seen), word)


def rows(found: Curves) -> list[list[str]]:
    """The lesson's table."""
    return [[name, *(f"{losses[epoch - 1]:.2f}" for epoch in SHOWN)] for name, losses in (("training", found.training), ("validation", found.validation))]


def report(chapters: ChapterPackage, seed: int) -> Iterator[Table | str]:
    words, models, training = (chapters.module(name) for name in ("ch01_tokenizer", "ch07_models", "ch08_training"))
    found = measure(words, models, training, seed)
    title = f"{len(SENTENCES) - found.held_out} sentences for training, {found.held_out} for validation"
    yield make_table(title, ("epoch", *map(str, SHOWN)), rows(found))
    best = min(range(EPOCHS), key=found.validation.__getitem__) + 1
    turned = found.judged.index("overfitting") + 1 if "overfitting" in found.judged else None
    yield f"The validation loss is lowest at epoch {best}, with {found.validation[best - 1]:.2f}."
    yield f"The lowest possible loss on the sentences for training is {found.least_seen:.3f}."
    yield f'judge_fit returns "overfitting" from epoch {turned} on.' if turned else 'judge_fit never returns "overfitting".'
    yield (
        f"On all {len(SENTENCES)} sentences the loss begins at {found.memorised[0]:.2f} and is {found.memorised[-1]:.2f} after {ALL_EPOCHS} epochs; "
        f"the lowest possible is {found.least:.3f}. After `{PROMPT}` the model writes `{found.next_word}`."
    )


def main(arguments: list[str] | None = None) -> int:
    return run_measurement(__doc__, "ch08", report, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
