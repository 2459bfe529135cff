"""Two kinds of text at several weights: the loss on each."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from grader.chapters.ch19_data_and_scale.small_gpt import ROWS, Ids, loss_on, read_stories, train
from grader.console.output import show_progress
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import result_table
from rich.table import Table

PERCENT_OF_SECOND_KIND = (0, 10, 50, 90, 100)


def backwards(ids: Ids) -> Ids:
    return [ids[0], *ids[-2:0:-1], ids[-1]]


def report_data_mixture(chapters: ChapterPackage, seed: int, *, steps: int = 300) -> Iterator[Table | str]:
    """Lesson 19: a mixture of stories and of stories that are written backwards, at several weights.

    The number of texts in a training is always the same. Held-out stories are read in both directions.
    """
    stories = read_stories(chapters, seed, steps * ROWS)
    turned, rows = [backwards(ids) for ids in stories.training], []
    with show_progress("training", len(PERCENT_OF_SECOND_KIND) * steps) as step:
        for percent in PERCENT_OF_SECOND_KIND:
            generator = torch.Generator().manual_seed(seed)
            weights = (1 - percent / 100, percent / 100)
            mixed = stories.parts.mixture((stories.training, turned), weights, generator)
            model = train(stories, iter(mixed), steps, seed, step)
            losses = [loss_on(stories, model, s) for s in (stories.held_out, list(map(backwards, stories.held_out)))]
            shown = (f"{loss:.3f}" for loss in (*losses, sum(losses) / 2))
            rows.append([f"{percent} %", f"{steps * ROWS * percent // 100:,}", *shown])
    columns = ("backwards", "texts, about", "loss on stories", "loss backwards", "mean of both")
    yield result_table(f"After {steps} steps of {ROWS} texts", columns, rows)
