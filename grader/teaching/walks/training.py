"""Predictions before and after training, the loss on the way, and which words have become similar.

The GPT of the course memorises the twenty sentences of grader/teaching/corpora.py; four unseen sentences show how far that generalises.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from grader.teaching.corpora import SENTENCES, least_loss
from grader.teaching.drawing.charts import curves, heatmap
from grader.teaching.drawing.svg import stack_pictures
from grader.teaching.walks.parts import Parts
from grader.teaching.walks.progress_line import ProgressReporter
from grader.teaching.walks.small_models import GPT_PARTS, TOKENIZING, TRAINING, small_gpt, tokenizer_and_batch
from grader.teaching.walks.walk_page import WalkPage
from torch import Tensor, nn

REQUIRED_EXERCISES = (*TOKENIZING, *GPT_PARTS, "count_parameters", *TRAINING, "perplexity", "judge_fit", "fit", "sample_next_token", "generate")
NEXT_STEP = (
    "Next: `headway walk inference` follows one text through such a model, `headway walk heads` shows what its heads attend to. "
    "To go on with your own code, call `fit` on a text of your choice."
)

UNSEEN = ("our dog sat on the wall", "my cat sat on the bench", "the girl ate the cheese", "a bird read a long book")  # words from the training sentences
PROMPTS = ("the cat sat on the", "my sister", "every night the")
COMPARED = ("cat", "dog", "king", "queen", "boy", "mat", "rug", "sofa", "roof")
ASKED = ("cat", "king", "mat", "over")
EPOCHS, LR = 150, 3e-3
SHOWN = (1, 5, 10, 20, 50, 100, 150)  # epochs in the table
Guesses = list[tuple[str, float]]


@dataclass(frozen=True)
class Numbers:
    vocab_size: int
    parameters: int
    targets: int  # words to predict
    least: float  # the loss of a model that has memorised all sentences
    guesses_before: dict[str, Guesses]  # by prompt, the likeliest
    guesses_after: dict[str, Guesses]
    written_before: str
    written_after: dict[str, str]
    losses: list[float]
    unseen: list[float]
    judgement: str
    alike_before: list[list[float]]  # of the words in COMPARED
    alike_after: list[list[float]]
    nearest_before: dict[str, Guesses]
    nearest_after: dict[str, Guesses]


def measure(parts: Parts, seed: int, report_progress: ProgressReporter) -> Numbers:
    """Record predictions, train, and record them again."""
    tokenizer, batch = tokenizer_and_batch(parts)
    unseen = parts.collate([parts.next_token_pairs(tokenizer.encode(sentence), 32)[0] for sentence in UNSEEN])
    model = small_gpt(parts, tokenizer.vocab_size, seed, d_model=64, n_heads=4, n_layers=4)
    guesses_before, written_before = _guesses(parts, model, tokenizer), _written(parts, model, tokenizer, PROMPTS[0])
    alike_before, nearest_before = _alike(model, tokenizer)
    optimizer = parts.AdamW(model.parameters(), lr=LR)
    with report_progress("training", EPOCHS) as step:

        def an_epoch() -> list[tuple[Tensor, Tensor]]:
            step()
            return [batch]

        records = parts.fit(model, optimizer, an_epoch, EPOCHS, validate=lambda trained: math.log(parts.perplexity(trained, [unseen])))
    losses, unseen_losses = [float(record["train_loss"]) for record in records], [float(record["val_loss"]) for record in records]
    alike_after, nearest_after = _alike(model, tokenizer)
    return Numbers(
        vocab_size=tokenizer.vocab_size,
        parameters=int(parts.count_parameters(model)),
        targets=int((batch[1] != -100).sum()),
        least=least_loss(SENTENCES),
        guesses_before=guesses_before,
        guesses_after=_guesses(parts, model, tokenizer),
        written_before=written_before,
        written_after={prompt: _written(parts, model, tokenizer, prompt) for prompt in PROMPTS},
        losses=losses,
        unseen=unseen_losses,
        judgement=str(parts.judge_fit(losses, unseen_losses)),
        alike_before=alike_before,
        alike_after=alike_after,
        nearest_before=nearest_before,
        nearest_after=nearest_after,
    )


@torch.no_grad()
def _guesses(parts: Parts, model: nn.Module, tokenizer) -> dict[str, Guesses]:
    model.eval()
    found = {}
    for prompt in PROMPTS:
        logits = model(torch.tensor([tokenizer.encode(prompt)]))[0][0, -1]
        chances = parts.softmax(logits, dim=-1)
        best = chances.topk(3)
        found[prompt] = [(tokenizer.decode([i]), p) for i, p in zip(best.indices.tolist(), best.values.tolist())]
    return found


def _written(parts: Parts, model: nn.Module, tokenizer, prompt: str) -> str:
    """Generate greedily, as many words as the sentence with this beginning has."""
    ids = tokenizer.encode(prompt)
    more = max(len(sentence.split()) for sentence in SENTENCES if sentence.startswith(prompt)) - len(ids)
    return tokenizer.decode(parts.generate(model, torch.tensor([ids]), more, temperature=0)[0].tolist())


@torch.no_grad()
def _alike(model: nn.Module, tokenizer) -> tuple[list[list[float]], dict[str, Guesses]]:
    """Return the cosines between the words' vectors, after their common mean is subtracted, and the nearest words of some."""
    vectors = model.token_emb.weight.detach()
    vectors = vectors - vectors.mean(dim=0)
    vectors = vectors / vectors.norm(dim=1, keepdim=True)
    cosines = vectors @ vectors.T
    picked = [tokenizer.encode(word)[0] for word in COMPARED]
    nearest = {}
    for word in ASKED:
        best = cosines[tokenizer.encode(word)[0]].topk(4)
        nearest[word] = [(tokenizer.decode([i]), value) for i, value in zip(best.indices.tolist()[1:], best.values.tolist()[1:])]
    return cosines[picked][:, picked].tolist(), nearest


def print_walk(page: WalkPage, n: Numbers) -> None:
    """Before training, on the way, and after."""
    page.step("The training data")
    page.say(f"{len(SENTENCES)} sentences, {n.targets} words to predict in them, {n.vocab_size} words in the vocabulary. Three of them:")
    for sentence in SENTENCES[:3]:
        page.line(sentence)
    page.say(f"The model has 4 layers and {n.parameters:,} weights. It reads all sentences at once, {EPOCHS} times, with AdamW at {LR:g}.")

    page.step("Predictions before training")
    _print_guesses(page, n.guesses_before)
    page.say("All words are about equally likely. The text that it generates:")
    page.line(n.written_before)

    page.step("Training")
    every = n.losses + n.unseen
    for name, losses in (("training loss by epoch  ", n.losses), ("four unseen sentences   ", n.unseen)):
        page.curve(name, losses, width=36, span=(min(every), max(every)))
    page.blank()
    rows = [[epoch, f"{n.losses[epoch - 1]:.3f}", f"{math.exp(n.losses[epoch - 1]):.1f}", f"{n.unseen[epoch - 1]:.3f}"] for epoch in SHOWN]
    page.table(rows, ["epoch", "loss", "perplexity", "unseen sentences"], left=0)
    page.say(
        f"The loss began near ln({n.vocab_size}) = {math.log(n.vocab_size):.2f}, the loss of guessing. It cannot fall below {n.least:.2f}, because "
        f"several words can follow 'the'. The four unseen sentences consist of words from the training data; their loss was lowest in "
        f"epoch {1 + n.unseen.index(min(n.unseen))}. From the two curves judge_fit concludes: {n.judgement}."
    )

    page.step("Predictions after training")
    _print_guesses(page, n.guesses_after)
    page.say("The texts that it generates:")
    for text in n.written_after.values():
        page.line(text)

    page.step("Which words have become similar")
    page.say("The cosine of two words' vectors: 1 is the same direction, 0 is unrelated. The nearest words before and after:")
    rows = [[word, _some(n.nearest_before[word]), _some(n.nearest_after[word])] for word in ASKED]
    page.table(rows, ["word", "before", "after"], left=3)
    page.grid(n.alike_after, COMPARED, COMPARED)
    page.say(
        "The training data do not say that a cat and a dog are animals, or that one sits on a mat. Words that occur in the same places, "
        "between the same words, now have similar vectors."
    )


def _print_guesses(page: WalkPage, guesses: dict[str, Guesses]) -> None:
    rows = [[prompt + " ...", *(f"{word} {p:.0%}" for word, p in best)] for prompt, best in guesses.items()]
    page.table(rows, ["after", "likeliest", "second", "third"], left=4)


def _some(words: Guesses) -> str:
    return ", ".join(f"{word} {value:.2f}" for word, value in words)


def draw(n: Numbers) -> str:
    """The loss, and the words before and after."""
    epochs = range(1, len(n.losses) + 1)
    lines = {"training sentences": list(zip(epochs, n.losses)), "unseen sentences": list(zip(epochs, n.unseen))}
    pictures = [
        curves(lines, "The loss", x_name="epoch", y_name="loss"),
        heatmap(n.alike_before, COMPARED, COMPARED, "Similarity of words before training"),
        heatmap(n.alike_after, COMPARED, COMPARED, "Similarity of words after training"),
    ]
    return stack_pictures(pictures, "A small GPT learns twenty sentences")
