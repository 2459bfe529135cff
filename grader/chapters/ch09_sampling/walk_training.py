"""A small GPT memorises the twenty sentences."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import torch
from grader.chapters.ch08_training.measurements import EPOCHS, LR, PROMPT, SIZES
from grader.chapters.corpora import SENTENCES, least_loss
from grader.chapters.small_models import SENTENCE_GPT, Batch, batch_of, small_gpt, tokenizer_and_batch
from grader.console.output import ProgressReporter
from grader.teaching.terminal_drawing import BLANK, Block, curves, grid, line, table
from grader.teaching.walks.parts import MixedChapters
from torch import nn

FITTING = ("perplexity", "judge_fit", "fit", "sample_next_token", "generate")
REQUIRED_EXERCISES = (*SENTENCE_GPT, "count_parameters", *FITTING)

UNSEEN = (  # words from the training sentences
    "our dog sat on the wall", "my cat sat on the bench", "the girl ate the cheese", "a bird read a long book",
)  # fmt: skip
PROMPTS = (PROMPT, "my sister", "every night the")
COMPARED = ("cat", "dog", "king", "queen", "boy", "mat", "rug", "sofa", "roof")
WITH_NEIGHBOURS = ("cat", "king", "mat", "over")
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
