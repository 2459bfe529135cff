"""Which layer carries a fact: one state of a run with the fact replaces the state of a run without it, at every layer and position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from grader.teaching.corpora import ASKED, FACTS
from grader.teaching.drawing.charts import heatmap
from grader.teaching.walks.parts import Parts
from grader.teaching.walks.progress_line import ProgressReporter
from grader.teaching.walks.small_models import GPT_PARTS, TOKENIZING, TRAINING, small_gpt, tokenizer_and_batch, train
from grader.teaching.walks.walk_page import WalkPage, shape
from torch import Tensor

REQUIRED_EXERCISES = (*TOKENIZING, *GPT_PARTS, *TRAINING, "residual_stream", "patch_residual", "recovery")
NEXT_STEP = "Next: `headway walk logit-lens` reads the layers of one run. What a layer contains and what the model uses can differ."

SENTENCES = tuple(f"of {country} the {asked} is {answer}" for country, *answers in FACTS for asked, answer in zip(ASKED, answers))
PLACES = ("of", "country", "the", "asked", "is")
COUNTRY, LAST = 1, 4
STEPS, LAYERS, WIDTH, HEADS = 250, 4, 32, 2

Table = list[list[float]]  # by block, then by place


@dataclass(frozen=True)
class Numbers:
    loss_after: float
    right: int  # of all facts
    size: tuple[int, ...]  # of the stream that is patched
    clean: str
    corrupted: str
    answers: tuple[str, str]  # the model's answers to both
    logits: tuple[float, float]  # of the clean answer in either run
    one: Table  # recovery in this pair
    says: list[list[str]]  # the answer of the patched run
    everywhere: list[float]  # recovery by block, all places patched at once
    other_country: Table  # mean recovery over all pairs that differ in the country
    other_question: Table  # and over those that differ in what is asked
    needed: Table  # the mean share of the answer that is lost when the state of the other country's run is put into the clean one
    pairs: int


def measure(parts: Parts, seed: int, report_progress: ProgressReporter) -> Numbers:
    """Teach a small GPT the facts, and patch it."""
    tokenizer, (inputs, targets) = tokenizer_and_batch(parts, SENTENCES)
    targets = targets.clone()
    targets[:, :-1] = -100  # the country and the question are random; only the answer can be learned
    model = small_gpt(parts, tokenizer.vocab_size, seed, d_model=WIDTH, n_heads=HEADS, n_layers=LAYERS)
    losses = train(parts, model, (inputs, targets), STEPS, report_progress, what=f"learning {len(SENTENCES)} facts")
    with torch.no_grad():
        right = int((model(inputs)[0][:, -1].argmax(-1) == targets[:, -1]).sum())

    # rows of `facts`: country, then question; continents are left out, because several countries share one
    facts = inputs.view(len(FACTS), len(ASKED), -1)[:, :2]
    answers = targets[:, -1].view(len(FACTS), len(ASKED))[:, :2].flatten()
    clean = facts.flatten(0, 1)
    country, question = facts.roll(-1, 0).flatten(0, 1), facts.flip(1).flatten(0, 1)
    by_country, by_question = (patched(parts, model, clean, other, answers) for other in (country, question))
    needed = patched(parts, model, country, clean, answers)
    first = patched(parts, model, clean[:1], country[:1], answers[:1])
    ends = [model(ids[:1])[0][0, -1].detach() for ids in (clean, country)]
    said = [[_word(tokenizer, parts.patch_residual(model, clean[:1], country[:1], layer, place)[0, -1]) for place in range(len(PLACES))] for layer in range(LAYERS)]
    whole = [parts.recovery(*ends, parts.patch_residual(model, clean[:1], country[:1], layer)[0, -1], int(answers[0])) for layer in range(LAYERS)]
    return Numbers(
        loss_after=losses[-1],
        right=right,
        size=(LAYERS, *clean[:1].shape, WIDTH),
        clean=tokenizer.decode(clean[0].tolist()),
        corrupted=tokenizer.decode(country[0].tolist()),
        answers=(_word(tokenizer, ends[0]), _word(tokenizer, ends[1])),
        logits=(ends[0][answers[0]].item(), ends[1][answers[0]].item()),
        one=first,
        says=said,
        everywhere=whole,
        other_country=by_country,
        other_question=by_question,
        needed=needed,
        pairs=len(clean),
    )


def _word(tokenizer: Any, logits: Tensor) -> str:
    return tokenizer.decode([int(logits.argmax())])


def patched(parts: Parts, model: Any, clean: Tensor, corrupted: Tensor, answers: Tensor) -> Table:
    """Return the mean recovery of the answers, (N,), over N pairs of runs, by block and position."""
    with torch.no_grad():
        ends = [model(ids)[0][:, -1] for ids in (clean, corrupted)]
    table = []
    for layer in range(LAYERS):
        row = []
        for place in range(clean.size(1)):
            logits = parts.patch_residual(model, clean, corrupted, layer, place)[:, -1]  # (N, V)
            found = [parts.recovery(*runs, int(answer)) for *runs, answer in zip(*ends, logits, answers)]
            row.append(sum(found) / len(found))
        table.append(row)
    return table


def strongest(table: Table) -> list[int]:
    """Return the position that restores most, by block."""
    return [max(range(len(row)), key=lambda place: row[place]) for row in table]


def print_walk(page: WalkPage, n: Numbers) -> None:
    blocks = [f"after block {i}" for i in range(len(n.one))]
    words = n.corrupted.split()
    page.step("A model that has learned some facts")
    page.say(
        f"A GPT of {len(blocks)} blocks has been trained on {len(SENTENCES)} sentences for {STEPS} steps: capital, language and continent of {len(FACTS)} "
        f"countries. The loss of the answers is {n.loss_after:.3f} now, and {n.right} of {len(SENTENCES)} are right."
    )

    page.step("Two runs")
    page.table([["clean", n.clean, n.answers[0], f"{n.logits[0]:.2f}"], ["corrupted", n.corrupted, n.answers[1], f"{n.logits[1]:.2f}"]],
               ["run", "text", "answer", f"logit of {n.answers[0]}"], left=3)  # fmt: skip
    page.say(
        "The texts differ in one word. Some state of the clean run carries the country that the corrupted run lacks. To find it, copy the "
        "stream of the clean run at one position after one block into the corrupted run, and let that run continue."
    )

    page.step("One state at a time", shape(n.size))
    page.say(f"How much of the logit of {n.answers[0]!r} returns, by block and by patched position: 0 is nothing, 1 is all of it.")
    page.grid(n.one, blocks, words, width=8)
    page.say("The answer of the patched run:")
    page.table([[name, *row] for name, row in zip(blocks, n.says)], ["", *words], left=len(words) + 1)
    page.say(
        f"All positions patched at once: {', '.join(f'{value:.2f}' for value in n.everywhere)}. This must be 1, because from there on it is the clean run. "
        "Positions before the country restore nothing, because they do not depend on it. After the last block only the last position counts, "
        "because the answer is read there."
    )

    page.step("The path of the country through the model")
    page.say(f"One pair may be special. The mean over {n.pairs} pairs about a capital or a language that differ in the country:")
    page.grid(n.other_country, blocks, PLACES, width=8)
    for line in _way(n.other_country):
        page.say(line)

    page.step("The path of the question")
    page.say("The same for pairs about one country that differ in the question, capital or language:")
    page.grid(n.other_question, blocks, PLACES, width=8)
    for line in _way(n.other_question):
        page.say(line)

    page.step("Sufficient, or necessary?")
    page.say(
        "A recovery of 1 shows that a state is sufficient. Is it also necessary? Now the other country's state goes into the clean run. "
        "The share of the answer that is lost:"
    )
    page.grid(n.needed, blocks, PLACES, width=8)
    gap = max(abs(a - b) for row, other in zip(n.needed, n.other_country) for a, b in zip(row, other))
    page.say(
        f"This table and the one of the country differ by {gap:.2f} at most. Where less is lost than was restored, another position carries the "
        "answer as well. Where more is lost, the state of the wrong country also lowers the logit for another reason."
    )


def _way(table: Table) -> list[str]:
    """Say in sentences where most of the information is after each block."""
    places = strongest(table)
    lines, start = [], 0
    for block in range(1, len(places) + 1):
        if block == len(places) or places[block] != places[start]:
            when = f"After block {start}" if block == start + 1 else f"After blocks {start} to {block - 1}"
            lines.append(f"{when} it is mostly at {PLACES[places[start]]!r} ({', '.join(f'{table[i][places[start]]:.2f}' for i in range(start, block))}).")
            start = block
    return lines


def draw(n: Numbers) -> str:
    """Mean recovery by block and position, for both kinds of pairs."""
    kinds = {"another country": n.other_country, "another question": n.other_question}
    rows = [f"{kind}, after block {i}" for kind, table in kinds.items() for i in range(len(table))]
    values = [row for table in kinds.values() for row in table]
    return heatmap(values, rows, PLACES, "How much of the answer one state restores", column_name="patched position", row_name="the other run had")
