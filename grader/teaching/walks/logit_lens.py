"""What a model would predict if it stopped after each layer, word by word, and from which layer on its prediction stays."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from grader.teaching.drawing.palette import FAINT, shade, text_on
from grader.teaching.drawing.svg import box, card, write
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
    answer: list[list[float]]  # the probability of the word that the model itself predicts there

    @property
    def decided(self) -> list[int]:
        """For each position, the layer from which on the best word is the model's own prediction."""
        own = self.best[-1]
        return [next(i for i in range(len(self.best)) if all(row[t] == own[t] for row in self.best[i:])) for t in range(len(self.words))]


@dataclass(frozen=True)
class Numbers:
    loss_before: float
    loss_after: float
    shape: tuple[int, ...]
    apart: float  # how far the lens's last row is from the model's own logits, at most
    readings: list[Reading]
    late: tuple[int, int]  # the reading and the position where the middle layers were least sure of the model's prediction
    candidates: list[list[tuple[str, float]]]  # there, the best words of each layer
    same_word: list[float]  # over all sentences, by layer: how often the best word is the one just read,
    agreed: list[float]  # how often it is the model's own,
    surprise: list[float]  # and the mean loss, were that layer the last


def measure(parts: Parts, seed: int, report_progress: ProgressReporter) -> Numbers:
    """Train a small GPT, and read every layer of it the way that the model reads its last one."""
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
    """Return how sure the middle layers are of the model's answer; a large number where the model itself is not sure."""
    sure = [row[position] for row in reading.answer]
    return sum(sure[1:-1]) if sure[-1] > 0.8 else float(len(sure))


def layer_names(count: int) -> list[str]:
    return ["embedding", *(f"block {i}" for i in range(count - 1))]


def print_walk(page: WalkPage, n: Numbers) -> None:
    names = layer_names(len(n.agreed))
    first = n.readings[0]
    page.step("One prediction from each layer", shape(n.shape))
    page.say(
        f"A GPT of {len(names) - 1} blocks has been trained on twenty short sentences for {STEPS} steps; its loss fell from {n.loss_before:.2f} to "
        f"{n.loss_after:.2f}. Normally only the output of the last block becomes a word. The logit lens reads the output of every block in the same way, "
        "through the final norm and the head: what would the model predict if it stopped there?"
    )
    same = "are the same, number by number" if n.apart == 0 else f"differ by {n.apart:.0e} at most"
    page.say(f"The last row of the lens and the model's own logits {same}.")

    page.step("The likeliest next word, layer by layer")
    page.say("The first line has the words of the text. Below each word is the next word that each layer would predict.")
    for number, reading in enumerate(n.readings):
        if number:
            page.blank()
        page.table([[name, *row] for name, row in zip(names, reading.best)], ["", *reading.words], left=9)

    page.step("The probability of the final prediction")
    page.say("For the first text: the probability that each layer gives to the word that the model predicts at the end.")
    page.grid(first.answer, names, first.words, width=6)
    page.say("The layer from which on the prediction stays the same:")
    page.table([["stays from", *(names[i] for i in first.decided)], ["predicts", *first.best[-1]]], ["", *first.words])

    reading, position = n.readings[n.late[0]], n.late[1]
    page.step("A late decision")
    page.say(
        "Apart from the first word, the layers before the last gave the final prediction the lowest probability after "
        f'"{" ".join(reading.words[: position + 1])}". The best {BEST} words of each layer:'
    )
    page.table([[name, *(f"{word} {chance:.2f}" for word, chance in row)] for name, row in zip(names, n.candidates)], left=BEST + 1)

    page.step("All twenty sentences")
    page.table(
        [[name, f"{a:.0%}", f"{b:.0%}", f"{c:.2f}"] for name, a, b, c in zip(names, n.same_word, n.agreed, n.surprise)],
        ["", "repeats its input word", "agrees with the model", "loss"],
    )
    page.say(
        f"Right after the embedding the best word is the input word itself in {n.same_word[0]:.0%} of all places: input and output share one matrix here, "
        "so a word's vector is most similar to itself. Each block adds something that moves the stream from the input word towards the next word."
    )


WIDE, TALL, LEFT = 74, 44, 110


def draw(n: Numbers) -> str:
    """Each layer's likeliest next word for each text, coloured by its probability."""
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
    marks.append(write(LEFT, y, "Each cell: the likeliest next word if this layer were the last, and its probability.", colour=FAINT))
    return card(marks, right + 20, y + 20, "What the model would predict after each layer")


def _cell(x: float, y: float, word: str, chance: float) -> list[str]:
    middle, fill = x + WIDE / 2, shade(chance, 0.0, 1.0)
    return [
        box(x, y, WIDE, TALL, fill),
        write(middle, y + 19, word, anchor="middle", colour=text_on(fill)),
        write(middle, y + 36, f"{chance:.2f}", anchor="middle", colour=text_on(fill), size=11),
    ]
