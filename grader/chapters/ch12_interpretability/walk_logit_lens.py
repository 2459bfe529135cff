"""What a model would predict if it stopped after each layer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from grader.chapters.small_models import SENTENCE_GPT, sentence_gpt
from grader.console.output import ProgressReporter
from grader.teaching.terminal_drawing import BLANK, grid, table
from grader.teaching.walks.parts import MixedChapters

REQUIRED_EXERCISES = (*SENTENCE_GPT, "residual_stream", "logit_lens")

TEXTS = ("the cat sat on the", "every night the moon rose over the")
STEPS, LAYERS, WIDTH, HEADS = 150, 4, 64, 4
BEST = 3  # candidates shown
LAYER_NAMES = ("embedding", *(f"block {i}" for i in range(LAYERS)))


def measure(parts: MixedChapters, seed: int, report_progress: ProgressReporter) -> SimpleNamespace:
    sizes = {"d_model": WIDTH, "n_heads": HEADS, "n_layers": LAYERS}
    model, tokenizer, (inputs, targets), losses = sentence_gpt(parts, seed, STEPS, report_progress, **sizes)
    readings, tables = [], []
    for text in TEXTS:
        ids = torch.tensor([tokenizer.encode(text)])
        lens = parts.logit_lens(model, ids)
        with torch.no_grad():
            apart = (lens[-1] - model(ids)[0]).abs().max().item()
        table = parts.softmax(lens[:, 0], dim=-1)  # (layers + 1, T, V)
        chances, best = table.max(-1)
        answer = table[:, torch.arange(table.size(1)), best[-1]]
        words = [[tokenizer.decode([i]) for i in row] for row in best.tolist()]
        columns = list(zip(*words))  # each position has the layer from which on the best word is the model's own
        decided = [max((i + 1 for i, word in enumerate(one) if word != one[-1]), default=0) for one in columns]
        reading = {"words": text.split(), "best": words, "chances": chances.tolist(), "decided": decided}
        # all by layer, beginning with the embeddings, then by position; answer: the chance of the model's own word
        readings.append(SimpleNamespace(**reading, answer=answer.tolist()))
        tables.append(table)
    places = [(i, t) for i, reading in enumerate(readings) for t in range(1, len(reading.words))]
    late = min(places, key=lambda place: _early_certainty(readings[place[0]], place[1]))
    top = tables[late[0]][:, late[1]].topk(BEST)
    candidates = [
        [(tokenizer.decode([i]), chance) for i, chance in zip(*row)]
        for row in zip(top.indices.tolist(), top.values.tolist())
    ]
    everywhere, real = parts.logit_lens(model, inputs), targets != -100
    said = everywhere.argmax(-1)  # (layers + 1, B, T)
    right = targets.clamp(min=0).expand(len(said), -1, -1)[..., None]
    surprises = -torch.log(parts.softmax(everywhere, dim=-1).gather(-1, right)[..., 0])
    return SimpleNamespace(
        loss_before=losses[0],
        loss_after=losses[-1],
        shape=tuple(lens.shape),
        apart=apart,  # how far the lens's last row is from the model's own logits, at most
        readings=readings,
        late=late,  # the reading and the position where the middle layers were least sure of the model's prediction
        candidates=candidates,  # there, the best words of each layer
        same_word=[(row == inputs)[real].float().mean().item() for row in said],  # by layer, over all sentences
        agreed=[(row == said[-1])[real].float().mean().item() for row in said],
        surprise=[row[real].mean().item() for row in surprises],
    )


def _early_certainty(reading: SimpleNamespace, position: int) -> float:
    """Return how sure the middle layers are of the model's answer; a large number where the model is not sure."""
    sure = [row[position] for row in reading.answer]
    return sum(sure[1:-1]) if sure[-1] > 0.8 else float(len(sure))


def describe(n: SimpleNamespace) -> dict[str, Any]:
    first, late = n.readings[0], n.readings[n.late[0]]
    one, other = (
        table([[name, *row] for name, row in zip(LAYER_NAMES, reading.best)], ["", *reading.words], left=9)
        for reading in n.readings
    )
    decided = [["stays from", *(LAYER_NAMES[i] for i in first.decided)], ["predicts", *first.best[-1]]]
    candidates = [
        [name, *(f"{word} {chance:.2f}" for word, chance in row)] for name, row in zip(LAYER_NAMES, n.candidates)
    ]
    shares = [
        [name, f"{same:.0%}", f"{agreed:.0%}", f"{loss:.2f}"]
        for name, same, agreed, loss in zip(LAYER_NAMES, n.same_word, n.agreed, n.surprise)
    ]
    return {
        "best_tables": one + BLANK + other,
        "answer_grid": grid(first.answer, LAYER_NAMES, first.words, width=6),
        "decided_table": table(decided, ["", *first.words]),
        "late_text": " ".join(late.words[: n.late[1] + 1]),
        "candidate_table": table(candidates, left=BEST + 1),
        "sentence_table": table(shares, ["", "repeats its input word", "agrees with the model", "loss"]),
    }
