"""Overfitting: a small GPT that sees the same sentences again and again."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import torch
from grader.chapters.corpora import SENTENCES, least_loss
from grader.chapters.small_models import batch_of, names_of, small_gpt, tokenizer_and_batch
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import Report, result_table
from torch import nn

PROMPT = "the cat sat on the"
EPOCHS, LR = 150, 3e-3
SIZES = {"d_model": 64, "n_heads": 4, "n_layers": 4}


def measure_overfitting(parts: Any, seed: int = 0) -> SimpleNamespace:
    """Train a model on fourteen of the sentences with validation on the others, and one on all; losses are by epoch."""
    tokenizer, _ = tokenizer_and_batch(parts)
    epochs = 100

    def fit(texts: tuple[str, ...], epochs: int, validate: Any = None) -> tuple[nn.Module, list[dict[str, float]]]:
        model = small_gpt(parts, tokenizer.vocab_size, seed, **SIZES)
        batch = batch_of(parts, tokenizer, texts)
        return model, parts.fit(model, parts.AdamW(model.parameters(), lr=LR), lambda: [batch], epochs, validate)

    held_out = tuple(text for text in SENTENCES if parts.is_validation(text, 0.3))
    seen = tuple(text for text in SENTENCES if text not in held_out)
    unknown = {word for text in held_out for word in text.split()} - {word for text in seen for word in text.split()}
    held = batch_of(parts, tokenizer, held_out)
    _, records = fit(seen, epochs, lambda model: math.log(parts.perplexity(model, [held])))
    training, validation = ([record[name] for record in records] for name in ("train_loss", "val_loss"))
    model, all_records = fit(SENTENCES, EPOCHS)
    logits = model.eval()(torch.tensor([tokenizer.encode(PROMPT)]))[0]
    return SimpleNamespace(
        held_out=len(held_out),
        unknown_words=len(unknown),  # of the held-out sentences
        training=training,
        validation=validation,
        judged=[parts.judge_fit(training[:n], validation[:n]) for n in range(1, epochs + 1)],
        memorised=[record["train_loss"] for record in all_records],
        least=least_loss(SENTENCES),
        least_seen=least_loss(seen),
        next_word=tokenizer.decode([int(logits[0, -1].argmax())]),
    )


def report_overfitting(chapters: ChapterPackage, seed: int) -> Report:
    """Lesson 8: the training and the validation loss of a small GPT that sees the same fourteen sentences repeatedly.

    The model is a GPT of 4 layers and width 64, the optimizer AdamW with a learning rate of 0.003, and all sentences
    are in one batch. Words are tokens. The last part trains on all twenty sentences, and shows the lowest loss that is
    possible there.
    """
    names = ("ch01_tokenizer", "ch07_models", "ch08_training")
    n, shown = measure_overfitting(names_of(*map(chapters.module, names)), seed), (1, 10, 20, 40, 100)
    losses = {"training": n.training, "validation": n.validation}
    rows = [[name, *(values[epoch - 1] for epoch in shown)] for name, values in losses.items()]
    title = f"{len(SENTENCES) - n.held_out} sentences for training, {n.held_out} for validation"
    yield result_table(title, ("epoch", *map(str, shown)), rows, ".2f")
    best = min(n.validation)
    yield f"The validation loss is lowest at epoch {n.validation.index(best) + 1}, with {best:.2f}."
    yield f"The lowest possible loss on the sentences for training is {n.least_seen:.3f}."
    if "overfitting" in n.judged:
        yield f'judge_fit returns "overfitting" from epoch {n.judged.index("overfitting") + 1} on.'
    else:
        yield 'judge_fit never returns "overfitting".'
    yield (
        f"On all {len(SENTENCES)} sentences the loss begins at {n.memorised[0]:.2f} and is {n.memorised[-1]:.2f} after "
        f"{EPOCHS} epochs; the lowest possible is {n.least:.3f}. After `{PROMPT}` the model writes `{n.next_word}`."
    )
