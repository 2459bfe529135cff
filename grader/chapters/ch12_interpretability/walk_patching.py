"""Activation patching in a model that has learned some facts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from grader.chapters.corpora import FACTS, RELATIONS
from grader.chapters.small_models import SENTENCE_GPT, small_gpt, tokenizer_and_batch, train
from grader.console.output import ProgressReporter
from grader.teaching.terminal_drawing import grid, table
from grader.teaching.walks.parts import MixedChapters
from torch import Tensor

REQUIRED_EXERCISES = (*SENTENCE_GPT, "residual_stream", "patch_residual", "recovery")

SENTENCES = tuple(
    f"of {country} the {asked} is {answer}" for country, *answers in FACTS for asked, answer in zip(RELATIONS, answers)
)
PLACES = ("of", "country", "the", "asked", "is")
COUNTRY, LAST = 1, 4
STEPS, LAYERS, WIDTH, HEADS = 250, 4, 32, 2
BLOCKS = [f"after block {i}" for i in range(LAYERS)]

Recoveries = list[list[float]]  # by block, then by place


def measure(parts: MixedChapters, seed: int, report_progress: ProgressReporter) -> SimpleNamespace:
    tokenizer, (inputs, targets) = tokenizer_and_batch(parts, SENTENCES)
    targets = targets.clone()
    targets[:, :-1] = -100  # the country and the question are random; only the answer can be learned
    model = small_gpt(parts, tokenizer.vocab_size, seed, d_model=WIDTH, n_heads=HEADS, n_layers=LAYERS)
    what = f"learning {len(SENTENCES)} facts"
    losses = train(parts, model, (inputs, targets), STEPS, report_progress, what=what)
    with torch.no_grad():
        right = int((model(inputs)[0][:, -1].argmax(-1) == targets[:, -1]).sum())

    # rows of `facts`: country, then question; continents are left out, because several countries share one
    facts = inputs.view(len(FACTS), len(RELATIONS), -1)[:, :2]
    answers = targets[:, -1].view(len(FACTS), len(RELATIONS))[:, :2].flatten()
    clean = facts.flatten(0, 1)
    country, question = facts.roll(-1, 0).flatten(0, 1), facts.flip(1).flatten(0, 1)
    pair = clean[:1], country[:1]
    ends = [model(ids)[0][0, -1].detach() for ids in pair]

    def word(logits: Tensor) -> str:
        return tokenizer.decode([int(logits.argmax())])

    says, everywhere = [], []
    for layer in range(LAYERS):
        runs = [parts.patch_residual(model, *pair, layer, place)[0, -1] for place in range(len(PLACES))]
        says.append([word(logits) for logits in runs])
        everywhere.append(parts.recovery(*ends, parts.patch_residual(model, *pair, layer)[0, -1], int(answers[0])))
    return SimpleNamespace(
        loss_after=losses[-1],
        right=right,
        size=(LAYERS, *pair[0].shape, WIDTH),
        clean=tokenizer.decode(clean[0].tolist()),
        corrupted=tokenizer.decode(country[0].tolist()),
        answers=[word(logits) for logits in ends],
        logits=[logits[answers[0]].item() for logits in ends],  # of the clean answer in either run
        one=patched(parts, model, *pair, answers[:1]),  # recovery in this pair
        says=says,  # the answer of the patched run
        everywhere=everywhere,  # recovery by block, all places patched at once
        other_country=patched(parts, model, clean, country, answers),
        other_question=patched(parts, model, clean, question, answers),
        needed=patched(parts, model, country, clean, answers),
        pairs=len(clean),
    )


def patched(parts: MixedChapters, model: Any, clean: Tensor, corrupted: Tensor, answers: Tensor) -> Recoveries:
    """Return the mean recovery of the answers, (N,), over N pairs of runs, by block and position."""
    with torch.no_grad():
        ends = [model(ids)[0][:, -1] for ids in (clean, corrupted)]
    recoveries = []
    for layer in range(LAYERS):
        row = []
        for place in range(clean.size(1)):
            logits = parts.patch_residual(model, clean, corrupted, layer, place)[:, -1]  # (N, V)
            found = [parts.recovery(*runs, int(answer)) for *runs, answer in zip(*ends, logits, answers)]
            row.append(sum(found) / len(found))
        recoveries.append(row)
    return recoveries


def strongest_places(recoveries: Recoveries) -> list[int]:
    return [row.index(max(row)) for row in recoveries]


def describe(n: SimpleNamespace) -> dict[str, Any]:
    words = n.corrupted.split()
    runs = zip(("clean", "corrupted"), (n.clean, n.corrupted), n.answers, n.logits)
    pairs = [(a, b) for row, other in zip(n.needed, n.other_country) for a, b in zip(row, other)]
    return {
        "sentences": len(SENTENCES),
        "countries": len(FACTS),
        "run_table": table(runs, ["run", "text", "answer", f"logit of {n.answers[0]}"], ".2f", left=3),
        "one_grid": grid(n.one, BLOCKS, words, width=8),
        "answer_table": table([[name, *row] for name, row in zip(BLOCKS, n.says)], ["", *words], left=len(words) + 1),
        "everywhere_text": ", ".join(f"{value:.2f}" for value in n.everywhere),
        "country_grid": grid(n.other_country, BLOCKS, PLACES, width=8),
        "country_path": _path(n.other_country),
        "question_grid": grid(n.other_question, BLOCKS, PLACES, width=8),
        "question_path": _path(n.other_question),
        "needed_grid": grid(n.needed, BLOCKS, PLACES, width=8),
        "gap": max(abs(a - b) for a, b in pairs),
    }


def _path(recoveries: Recoveries) -> list[str]:
    places = strongest_places(recoveries)
    lines, start = [], 0
    for block in range(1, len(places) + 1):
        if block == len(places) or places[block] != places[start]:
            when = f"After block {start}" if block == start + 1 else f"After blocks {start} to {block - 1}"
            values = ", ".join(f"{recoveries[i][places[start]]:.2f}" for i in range(start, block))
            lines.append(f"{when} it is mostly at {PLACES[places[start]]!r} ({values}).")
            start = block
    return lines
