"""What a model would say if it stopped after each layer, word by word, and when it makes up its mind."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from grader.teaching.drawing.diagrams import colour
from grader.teaching.drawing.svg import FAINT, INK, box, card, write
from grader.teaching.walks.parts import Parts
from grader.teaching.walks.progress_line import ProgressReporter
from grader.teaching.walks.small_models import GPT_PARTS, TOKENIZING, TRAINING, small_gpt, tokenizer_and_batch, train
from grader.teaching.walks.walk_page import WalkPage, shape

REQUIRED_EXERCISES = (*TOKENIZING, *GPT_PARTS, *TRAINING, "residual_stream", "logit_lens")
NEXT_STEP = "Next: `headway walk patching` puts a layer of one run into another, and finds out which one carries an answer."

TEXTS = ("the cat sat on the", "every night the moon rose over the")
STEPS, LAYERS, WIDTH, HEADS = 150, 4, 64, 4
BEST = 3  # candidates shown


@dataclass(frozen=True)
class Reading:
    """One text; everything by layer first, beginning with the embeddings, then by position."""

    words: list[str]
    best: list[list[str]]
    chances: list[list[float]]  # of that best word
    answer: list[list[float]]  # the chance of the word that the model itself says there

    @property
    def decided(self) -> list[int]:
        """For each position the layer from which on the best word is the model's own."""
        own = self.best[-1]
        return [next(i for i in range(len(self.best)) if all(row[t] == own[t] for row in self.best[i:])) for t in range(len(self.words))]


@dataclass(frozen=True)
class Numbers:
    loss_before: float
    loss_after: float
    shape: tuple[int, ...]
    apart: float  # how far the lens's last row is from the model's own logits, at most
    readings: list[Reading]
    late: tuple[int, int]  # the reading and the position where the middle layers were least sure of what the model says
    candidates: list[list[tuple[str, float]]]  # there, the best words of each layer
    same_word: list[float]  # over all sentences, by layer: how often the best word is the one just read,
    agreed: list[float]  # how often it is the model's own,
    surprise: list[float]  # and the mean loss, were that layer the last


def measure(parts: Parts, seed: int, report_progress: ProgressReporter) -> Numbers:
    """Train a small GPT, and read every layer of it as the model reads the last."""
    tokenizer, batch = tokenizer_and_batch(parts)
    model = small_gpt(parts, tokenizer.vocab_size, seed, d_model=WIDTH, n_heads=HEADS, n_layers=LAYERS)
    losses = train(parts, model, batch, STEPS, report_progress, what="training a small GPT")
    readings, tables = [], []
    for text in TEXTS:
        ids = torch.tensor([tokenizer.encode(text)])
        lens = parts.logit_lens(model, ids)
        with torch.no_grad():
            apart = (lens[-1] - model(ids)[0]).abs().max().item()
        table = parts.softmax(lens[:, 0], dim=-1)  # (layers + 1, T, V)
        chances, best = table.max(-1)
        answer = table[:, torch.arange(table.size(1)), best[-1]]
        readings.append(Reading(text.split(), [[tokenizer.decode([i]) for i in row] for row in best.tolist()], chances.tolist(), answer.tolist()))
        tables.append(table)
    late = min(((i, t) for i, reading in enumerate(readings) for t in range(1, len(reading.words))), key=lambda at: _early(readings[at[0]], at[1]))
    top = tables[late[0]][:, late[1]].topk(BEST)
    candidates = [[(tokenizer.decode([i]), chance) for i, chance in zip(*row)] for row in zip(top.indices.tolist(), top.values.tolist())]
    inputs, targets = batch
    everywhere, real = parts.logit_lens(model, inputs), targets != -100
    said = everywhere.argmax(-1)  # (layers + 1, B, T)
    surprises = -torch.log(parts.softmax(everywhere, dim=-1).gather(-1, targets.clamp(min=0).expand(len(said), -1, -1)[..., None])[..., 0])
    return Numbers(
        loss_before=losses[0],
        loss_after=losses[-1],
        shape=tuple(lens.shape),
        apart=apart,
        readings=readings,
        late=late,
        candidates=candidates,
        same_word=[(row == inputs)[real].float().mean().item() for row in said],
        agreed=[(row == said[-1])[real].float().mean().item() for row in said],
        surprise=[row[real].mean().item() for row in surprises],
    )


def _early(reading: Reading, position: int) -> float:
    """How sure the layers between the first and the last are of the model's answer, where the model itself is sure."""
    sure = [row[position] for row in reading.answer]
    return sum(sure[1:-1]) if sure[-1] > 0.8 else float(len(sure))


def layer_names(count: int) -> list[str]:
    return ["embedding", *(f"block {i}" for i in range(count - 1))]


def print_walk(page: WalkPage, n: Numbers) -> None:
    names = layer_names(len(n.agreed))
    first = n.readings[0]
    page.step("A model, and a question to each of its layers", shape(n.shape))
    page.say(
        f"A GPT of {len(names) - 1} blocks has read twenty short sentences {STEPS} times; its loss fell from {n.loss_before:.2f} to {n.loss_after:.2f}. "
        "Only what leaves the last block is meant to become a word. The logit lens reads what leaves each block in the same way, through the final "
        "norm and the head: what would the model say if it stopped there?"
    )
    same = "are the same, number by number" if n.apart == 0 else f"differ by {n.apart:.0e} at most"
    page.say(f"The last row of the lens and the model's own logits {same}.")

    page.step("The likeliest next word, layer by layer")
    page.say("The words that are read stand on top; under each word, what each layer would say comes next.")
    for number, reading in enumerate(n.readings):
        if number:
            page.blank()
        page.table([[name, *row] for name, row in zip(names, reading.best)], ["", *reading.words], left=9)

    page.step("How sure each layer is")
    page.say("The same for the first text: the chance that each layer gives to the word that the model says in the end.")
    page.grid(first.answer, names, first.words, width=6)
    page.say("The layer from which on the best word stays the same:")
    page.table([["decided after", *(names[i] for i in first.decided)], ["says", *first.best[-1]]], ["", *first.words])

    reading, position = n.readings[n.late[0]], n.late[1]
    page.step("A late decision")
    page.say(f'Where the layers before the last were least sure: after "{" ".join(reading.words[: position + 1])}". The best {BEST} words of each:')
    page.table([[name, *(f"{word} {chance:.2f}" for word, chance in row)] for name, row in zip(names, n.candidates)], left=BEST + 1)

    page.step("All twenty sentences")
    page.table(
        [[name, f"{a:.0%}", f"{b:.0%}", f"{c:.2f}"] for name, a, b, c in zip(names, n.same_word, n.agreed, n.surprise)],
        ["", "repeats the word just read", "says what the model says", "loss"],
    )
    page.say(
        f"Right after the embedding the best word is the one just read in {n.same_word[0]:.0%} of all places: input and output share one matrix here, "
        "so a word's vector is most like itself. Each block writes something into the stream that moves it away from what was read, and towards what comes next."
    )


WIDE, TALL, LEFT = 74, 44, 110


def draw(n: Numbers) -> str:
    """Each layer's likeliest next word for each text, coloured by its chance."""
    marks, y, right = [], 56, 0
    for reading in n.readings:
        marks.append(write(LEFT - 12, y + 16, "reads", anchor="end", colour=FAINT))
        marks += [write(LEFT + (t + 0.5) * WIDE, y + 16, word, anchor="middle", bold=True) for t, word in enumerate(reading.words)]
        for i, (name, row, chances) in enumerate(zip(layer_names(len(reading.best)), reading.best, reading.chances)):
            top = y + 28 + i * TALL
            marks.append(write(LEFT - 12, top + TALL / 2 + 4, name, anchor="end"))
            for t, (word, chance) in enumerate(zip(row, chances)):
                marks += _cell(LEFT + t * WIDE, top, word, round(chance, 2))
        right = max(right, LEFT + len(reading.words) * WIDE)
        y += 28 + len(reading.best) * TALL + 26
    marks.append(write(LEFT, y, "Each cell: the likeliest next word, were this layer the last, and its chance.", colour=FAINT))
    return card(marks, right + 20, y + 20, "What the model would say after each layer")


def _cell(x: float, y: float, word: str, chance: float) -> list[str]:
    ink = "#ffffff" if chance > 0.55 else INK
    middle = x + WIDE / 2
    return [
        box(x, y, WIDE, TALL, colour(chance, 0.0, 1.0)),
        write(middle, y + 19, word, anchor="middle", colour=ink),
        write(middle, y + 36, f"{chance:.2f}", anchor="middle", colour=ink, size=11),
    ]
