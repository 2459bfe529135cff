"""A small GPT memorises the twenty sentences: a walk, and the overfitting that lesson 8 measures."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import torch
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.corpora import SENTENCES, least_loss
from grader.teaching.measurements import Report, result_table
from grader.teaching.walks.parts import MixedChapters
from grader.teaching.walks.progress_line import ProgressReporter
from grader.teaching.walks.small_models import SENTENCE_GPT, Batch, batch_of, names_of, small_gpt, tokenizer_and_batch
from grader.teaching.walks.walk_page import BLANK, Block, curves, grid, line, table
from torch import nn

FITTING = ("perplexity", "judge_fit", "fit", "sample_next_token", "generate")
REQUIRED_EXERCISES = (*SENTENCE_GPT, "count_parameters", *FITTING)

UNSEEN = (  # words from the training sentences
    "our dog sat on the wall", "my cat sat on the bench", "the girl ate the cheese", "a bird read a long book",
)  # fmt: skip
PROMPTS = ("the cat sat on the", "my sister", "every night the")
COMPARED = ("cat", "dog", "king", "queen", "boy", "mat", "rug", "sofa", "roof")
WITH_NEIGHBOURS = ("cat", "king", "mat", "over")
EPOCHS, LR = 150, 3e-3
SIZES = {"d_model": 64, "n_heads": 4, "n_layers": 4}
SHOWN = (1, 5, 10, 20, 50, 100, 150)  # epochs in the table
Guesses = list[tuple[str, float]]


def measure(parts: MixedChapters, seed: int, report_progress: ProgressReporter) -> SimpleNamespace:
    tokenizer, batch = tokenizer_and_batch(parts)
    unseen = batch_of(parts, tokenizer, UNSEEN)
    model = small_gpt(parts, tokenizer.vocab_size, seed, **SIZES)
    before = _state(parts, model, tokenizer)
    optimizer = parts.AdamW(model.parameters(), lr=LR)
    with report_progress("training", EPOCHS) as step:

        def an_epoch() -> list[Batch]:
            step()
            return [batch]

        def validate(trained: nn.Module) -> float:
            return math.log(parts.perplexity(trained, [unseen]))

        records = parts.fit(model, optimizer, an_epoch, EPOCHS, validate=validate)
    losses, unseen_losses = ([float(record[name]) for record in records] for name in ("train_loss", "val_loss"))
    return SimpleNamespace(
        vocab_size=tokenizer.vocab_size,
        parameters=int(parts.count_parameters(model)),
        targets=int((batch[1] != -100).sum()),
        before=before,
        after=_state(parts, model, tokenizer),
        losses=losses,
        unseen=unseen_losses,
        judgement=str(parts.judge_fit(losses, unseen_losses)),
    )


@torch.no_grad()
def _state(parts: MixedChapters, model: nn.Module, tokenizer: Any) -> SimpleNamespace:
    """Return what the model predicts and writes after each prompt, and the similarity of its words' vectors."""
    model.eval()
    guesses, written = {}, {}
    for prompt in PROMPTS:
        ids = torch.tensor([tokenizer.encode(prompt)])
        best = parts.softmax(model(ids)[0][0, -1], dim=-1).topk(3)
        guesses[prompt] = [(tokenizer.decode([i]), p) for i, p in zip(best.indices.tolist(), best.values.tolist())]
        length = max(len(sentence.split()) for sentence in SENTENCES if sentence.startswith(prompt))
        text = parts.generate(model, ids, length - ids.size(1), temperature=0)
        written[prompt] = tokenizer.decode(text[0].tolist())
    vectors = model.token_emb.weight.detach()
    vectors = vectors - vectors.mean(dim=0)
    vectors = vectors / vectors.norm(dim=1, keepdim=True)
    cosines = vectors @ vectors.T
    nearest = {}
    for word in WITH_NEIGHBOURS:
        best = cosines[tokenizer.encode(word)[0]].topk(4)  # the first is the word itself
        nearest[word] = list(zip(map(tokenizer.decode, best.indices[1:, None].tolist()), best.values[1:].tolist()))
    picked = [tokenizer.encode(word)[0] for word in COMPARED]
    return SimpleNamespace(guesses=guesses, written=written, nearest=nearest, alike=cosines[picked][:, picked].tolist())


def describe(n: SimpleNamespace) -> dict[str, Any]:
    epochs = [[epoch, n.losses[epoch - 1], math.exp(n.losses[epoch - 1]), n.unseen[epoch - 1]] for epoch in SHOWN]

    def neighbours(words: Guesses) -> str:
        return ", ".join(f"{word} {value:.2f}" for word, value in words)

    states = (n.before, n.after)
    nearest = [[word, *(neighbours(state.nearest[word]) for state in states)] for word in WITH_NEIGHBOURS]
    return {
        "sentences": len(SENTENCES),
        "first_sentences": [part for sentence in SENTENCES[:3] for part in line(sentence)],
        "guess_table_before": _guess_table(n.before.guesses),
        "guess_table_after": _guess_table(n.after.guesses),
        "written_before": n.before.written[PROMPTS[0]],
        "written_lines": [part for text in n.after.written.values() for part in line(text)],
        "loss_curves": curves({"training loss by epoch": n.losses, "four unseen sentences": n.unseen}) + BLANK,
        "loss_table": table(epochs, ["epoch", "loss", "perplexity", "unseen sentences"], "- .3f .1f .3f", left=0),
        "guessing": math.log(n.vocab_size),
        "least": least_loss(SENTENCES),
        "best_epoch": 1 + n.unseen.index(min(n.unseen)),
        "nearest_table": table(nearest, ["word", "before", "after"], left=3),
        "alike_grid": grid(n.after.alike, COMPARED, COMPARED),
    }


def _guess_table(guesses: dict[str, Guesses]) -> Block:
    rows = [[prompt + " ...", *(f"{word} {p:.0%}" for word, p in best)] for prompt, best in guesses.items()]
    return table(rows, ["after", "likeliest", "second", "third"], left=4)


# ---- lesson 8


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
    logits = model.eval()(torch.tensor([tokenizer.encode(PROMPTS[0])]))[0]
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
        f"{EPOCHS} epochs; the lowest possible is {n.least:.3f}. After `{PROMPTS[0]}` the model writes `{n.next_word}`."
    )
