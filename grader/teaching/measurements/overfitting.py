"""Lesson 8: the training and the validation loss of a small GPT that sees the same fourteen sentences again and again.

    python -m grader.teaching.measurements.overfitting [--seed 1]

The model, its optimizer and its training loop are the reference's: a GPT of 4 layers and width 64, AdamW with a learning rate of 0.003, all
sentences in one batch. Words are tokens. The last part trains on all twenty sentences, and shows the lowest loss that is possible there.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import package_sources, resolve
from grader.teaching.corpora import SENTENCES
from rich.console import Console
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
    next_word: str  # after PROMPT, by the model that has memorised all sentences


def measure(seed: int = 0) -> Curves:
    """Train both models."""
    torch.set_num_threads(1)  # this model is too small for more, and the sums come in one order
    chapter = load_syllabus().chapter("ch08_training")
    package = ChapterPackage(package_sources(resolve("solutions"), chapter, whole=True), "measured")
    try:
        with torch.enable_grad():
            tokenizer, models, training = (package.module(load_syllabus().chapter(name).name) for name in ("ch01", "ch07", "ch08"))
            return _measure(tokenizer, models, training, seed)
    finally:
        package.close()


def _measure(first: ModuleType, models: ModuleType, training: ModuleType, seed: int) -> Curves:
    tokenizer = first.WordTokenizer(["<pad>", *first.build_vocab(SENTENCES)])

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
        logits = model.eval()(torch.tensor([tokenizer.encode(PROMPT)]))
    logits = logits[0] if isinstance(logits, tuple) else logits
    word = tokenizer.decode([int(logits[0, -1].argmax())])
    return Curves(len(held_out), train, validation, judged, len(unknown), [epoch["train_loss"] for epoch in all_epochs], least_loss(), word)


def least_loss() -> float:
    """The mean surprise of a model that knows how often each word follows each beginning in the corpus."""
    followers = Counter((tuple(words[:n]), words[n]) for words in map(str.split, SENTENCES) for n in range(1, len(words)))
    beginnings: Counter[tuple[str, ...]] = Counter()
    for (beginning, _), count in followers.items():
        beginnings[beginning] += count
    surprise = sum(-count * math.log(count / beginnings[beginning]) for (beginning, _), count in followers.items())
    return surprise / followers.total()


def rows(found: Curves) -> list[list[str]]:
    """The lesson's table."""
    return [[name, *(f"{losses[epoch - 1]:.2f}" for epoch in SHOWN)] for name, losses in (("training", found.training), ("validation", found.validation))]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="headway measure overfitting", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0, help="other initial weights (default 0)")
    found = measure(parser.parse_args(arguments).seed)
    table = Table(title=f"{len(SENTENCES) - found.held_out} sentences for training, {found.held_out} for validation")
    table.add_column("epoch", no_wrap=True)
    for epoch in SHOWN:
        table.add_column(str(epoch), justify="right", no_wrap=True)
    for row in rows(found):
        table.add_row(*row)
    console = Console(width=92)
    console.print(table)
    best = min(range(EPOCHS), key=found.validation.__getitem__) + 1
    turned = found.judged.index("overfitting") + 1 if "overfitting" in found.judged else None
    console.print(f"The validation loss is lowest at epoch {best}, with {found.validation[best - 1]:.2f}.")
    console.print(f'judge_fit says "overfitting" from epoch {turned} on.' if turned else 'judge_fit never says "overfitting".')
    console.print(
        f"On all {len(SENTENCES)} sentences the loss begins at {found.memorised[0]:.2f} and is {found.memorised[-1]:.2f} after {ALL_EPOCHS} epochs; "
        f"the lowest possible is {found.least:.3f}. After `{PROMPT}` the model writes `{found.next_word}`."
    )


if __name__ == "__main__":
    main()
