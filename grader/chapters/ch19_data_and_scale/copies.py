"""The same text several times in the training set: what the model repeats of it, and what it learns of other texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from grader.chapters.ch19_data_and_scale.small_gpt import ROWS, Ids, Stories, loss_on, read_stories, train
from grader.console.output import show_progress
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import result_table
from rich.table import Table

COPIES = (1, 2, 4, 8, 16)
PROMPT_TOKENS = 12
EXAMINED_TEXTS = 100


def in_some_order(texts: Sequence[Ids], copies: int, seed: int) -> list[Ids]:
    """Each text so many times, in an order of the seed."""
    rows = [text for text in texts for _ in range(copies)]
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed)).tolist()
    return [rows[i] for i in order]


def mean_repeated(stories: Stories, model: torch.nn.Module, texts: Sequence[Ids]) -> float:
    """How many tokens the model repeats of a text, in the mean."""
    counts = stories.parts.memorised(model, [text for text in texts if len(text) > PROMPT_TOKENS], PROMPT_TOKENS)
    return sum(counts) / len(counts)


def report_data_duplicates(chapters: ChapterPackage, seed: int, *, steps: int = 400) -> Iterator[Table | str]:
    """Lesson 19: training sets of equal size in which each text is there 1, 2, 4, 8 or 16 times.

    `repeated` is how many tokens in a row the model gets right after the first 12 of a text, in the mean. Held-out
    stories are in no training set.
    """
    stories = read_stories(chapters, seed, steps * ROWS)
    rows = []
    with show_progress("training", len(COPIES) * steps) as step:
        for copies in COPIES:
            texts = stories.training[: steps * ROWS // copies]
            model = train(stories, iter(in_some_order(texts, copies, seed)), steps, seed, step)
            row = [f"{copies}", f"{len(texts):,}"]
            for some in (texts[:EXAMINED_TEXTS], stories.held_out):
                row += [f"{mean_repeated(stories, model, some):.1f}", f"{loss_on(stories, model, some):.3f}"]
            rows.append(row)
    columns = ("copies", "texts", "repeated", "loss", "held-out: repeated", "loss")
    yield result_table(f"After {steps} steps of {ROWS} texts", columns, rows)
