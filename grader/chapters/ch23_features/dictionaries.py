"""How many features, and how many at a time: what a sparse autoencoder of each size explains, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from grader.chapters.ch23_features.features.dictionary import find_scale, make_autoencoder, make_optimizer, train_step
from grader.chapters.ch23_features.small_model import all_states, mean_loss, train_stories
from grader.chapters.story_model import SmallModel
from grader.console.output import show_progress
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import result_table
from rich.table import Table
from torch import Tensor

WIDTHS, ACTIVE = (64, 256, 1024), (2, 8, 32)
LAYER, TEXTS = 0, 1500  # the block whose states are explained, and texts that the autoencoders learn from


def report_features_dictionary(
    chapters: ChapterPackage, seed: int, *, pretraining: int = 300, steps: int = 300
) -> Iterator[Table | str]:
    """Lesson 23: sparse autoencoders of nine sizes on the same states of 64 numbers, after block 0 of a small GPT.

    All numbers are of held-out texts. Dead features are active at none of their tokens. The last column is the model's
    loss if it goes on from the reconstruction.
    """
    with show_progress("training", pretraining + len(WIDTHS) * len(ACTIVE) * steps) as step:
        small = train_stories(chapters, seed, pretraining, step)
        states, held_out = (all_states(small, texts, LAYER) for texts in (small.texts[:TEXTS], small.held_out))
        scale, rows = find_scale(states), []
        for width in WIDTHS:
            for k in ACTIVE:
                autoencoder = make_autoencoder(small.parts, states, scale, width, k, seed)
                optimizer = make_optimizer(small.parts, autoencoder)
                for number in range(steps):
                    train_step(autoencoder, optimizer, states, scale, seed, number, number / steps)
                    step()
                rows.append([f"{width:,} features, k = {k}", *examine(small, autoencoder, held_out, scale)])
    yield f"The loss of the model itself is {mean_loss(small, small.held_out):.2f}."
    columns = ("", "explained", "dead", "loss from the reconstruction")
    yield result_table(f"{len(held_out):,} held-out states", columns, rows)


@torch.no_grad()
def examine(small: SmallModel, autoencoder: Any, held_out: Tensor, scale: float) -> list[str]:
    reconstruction, features = autoencoder(held_out / scale)
    explained = small.parts.explained_variance(held_out / scale, reconstruction)
    dead = small.parts.dead_features(features, len(features)).float().mean()
    block = small.model.blocks[LAYER]  # type: ignore[index]
    handle = block.register_forward_hook(lambda module, inputs, x: scale * autoencoder(x / scale)[0])
    try:
        loss = mean_loss(small, small.held_out)
    finally:
        handle.remove()
    return [f"{explained:.0%}", f"{dead:.0%}", f"{loss:.2f}"]
