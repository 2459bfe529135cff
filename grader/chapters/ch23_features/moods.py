"""Labs on SmolLM2 and the mood of a report: what a probe's accuracy proves, and how strong a direction may be."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from grader.chapters.ch16_published_model.labs import open_published
from grader.chapters.ch23_features.features.opened import Opened, text_rows
from grader.chapters.ch23_features.features.probing import (
    BATCH_SENTENCES,
    Steering,
    keep_states,
    known_states,
    more_states,
    scaled,
)
from grader.chapters.ch23_features.features.subjects import mood
from grader.console.output import show_progress
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import result_table
from rich.table import Table
from torch import Tensor
from torch.nn import functional as F

CHAPTERS = ("ch12_interpretability", "ch23_features")
STATES = (0, 2, 3, 15)  # after so many blocks of 30
COUNTS = (24, 72, 240)
FOLDS = 6


def report_features_probe(chapters: ChapterPackage, seed: int) -> Iterator[Table | str]:
    """Lesson 23: a probe's accuracy on the states that it was fitted to, on held-out ones, and with shuffled labels.

    The question is whether SmolLM2 reads about something good or something bad. A state has 576 numbers, and is that of
    the last full stop. The columns with "shuffled" have the same labels in a random order.
    """
    opened, parts, states, labels = read_moods(chapters)
    columns = ("", "own states", "own, shuffled", "held-out", "held-out, shuffled")
    rows = []
    for blocks in (blocks for blocks in STATES if blocks < states.size(1)):
        for count in COUNTS:
            x, y = scaled(states[:count, blocks]), labels[:count]
            generator = torch.Generator().manual_seed(seed)
            shuffled = y[torch.randperm(len(y), generator=generator)]
            own = [own_accuracy(parts, x, each) for each in (y, shuffled)]
            held_out = parts.probe_score(x, y, FOLDS, generator)  # type: ignore[attr-defined]
            rows.append([f"{blocks} blocks, {len(y)} states", *(f"{share:.0%}" for share in (*own, *held_out))])
    table = result_table(f"Right answers of a probe in {opened.name}", columns, rows)
    table.columns[0].no_wrap = True
    yield table


def read_moods(chapters: ChapterPackage) -> tuple[Opened, object, Tensor, Tensor]:
    """SmolLM2, the parts, and the states of all sentences with their labels. PublishedProblem without its weights."""
    published = open_published(chapters, *CHAPTERS)
    parts, subject = published.own.parts, mood()
    opened = Opened(published.name, "published", published.model, published.tokenizer)
    with show_progress("reading", len(subject.sentences) // BATCH_SENTENCES) as step:
        states, _ = known_states(opened, subject)
        known = len(states)
        while len(states) < len(subject.sentences):
            states = more_states(parts, opened, subject, states)
            step()
    if len(states) > known:
        keep_states(opened, subject, states)
    return opened, parts, states, torch.tensor([label for _, label in subject.sentences[: len(states)]])


def own_accuracy(parts: object, states: Tensor, labels: Tensor) -> float:
    """The share of the states that a probe gets right after it was fitted to them."""
    weight, bias = parts.fit_probe(states, labels)  # type: ignore[attr-defined]
    return float(((states @ weight + bias > 0) == labels.bool()).float().mean())


def report_features_steering(chapters: ChapterPackage, seed: int) -> Iterator[Table | str]:
    """Lesson 23: SmolLM2 is steered from bad to good, and along a random direction of the same length.

    Strength 1 adds the distance between the mean states of both moods, after block 15 of 30. The log odds are those of
    good adjectives against bad ones after four beginnings; the loss is that of a text about a bridge.
    """
    opened, parts, states, labels = read_moods(chapters)
    subject, block = mood(), opened.n_layers // 2
    steering = Steering(parts, opened, subject, block, states, labels, text_rows(opened, subject.plain))
    generator = torch.Generator().manual_seed(seed)
    chance = F.normalize(torch.randn(states.size(2), generator=generator), dim=0)
    rows = []
    with show_progress("steering", 2 * len(subject.strengths)) as step:
        found = {"mood": steering.direction, "random": chance}
        for strength in sorted(subject.strengths):
            row = [f"{strength:g}"]
            for direction in found.values():
                steering.direction = direction
                one = steering.measure(strength, writes=False)
                row += [f"{one['log_odds']:.2f}", f"{one['loss']:.2f}"]
                step()
            rows.append(row)
    yield f"Strength 1 is {steering.distance:.1f}; the states have a length of about {steering.size:.0f}."
    columns = ("strength", "log odds", "loss", "log odds, random", "loss, random")
    yield result_table(f"Steering after block {block}", columns, rows)
