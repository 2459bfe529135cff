"""What an update does to a matrix: its singular values, with AdamW and with Muon."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from grader.chapters.ch20_modern_block.small_model import BATCH_TOKENS, PEAK, read_stories, train
from grader.console.output import show_progress
from grader.execution.chapter_package import ChapterPackage
from grader.models.training.trainer import MuonAndAdamW
from grader.teaching.measurements import result_table
from rich.table import Table
from torch import Tensor

LENGTH = 64
MATRICES = ("blocks.0.attn.W_q", "blocks.0.attn.W_v", "blocks.1.ffn.up")
SINGULAR_VALUE_PLACES = (8, 16, 32, 48)  # of 64, from the largest to the smallest


def shares(matrix: Tensor) -> list[float]:
    """Some singular values, divided by the largest."""
    values = torch.linalg.svdvals(matrix.detach().double())
    return [float(values[place - 1] / values[0]) for place in SINGULAR_VALUE_PLACES]


def report_muon_values(chapters: ChapterPackage, seed: int, *, steps: int = 150) -> Iterator[Table | str]:
    """Lesson 20: the singular values of one step's gradient, and of the updates of AdamW and Muon.

    Two GPTs with two blocks read the same rows of the stories, one trained by AdamW, one by Muon (and AdamW outside of
    the blocks). After 150 steps, one more step is looked at. Each row has singular values of one matrix, from the
    largest on, divided by the largest.
    """
    with show_progress("training", 2 * steps) as step:
        stories = read_stories(chapters, seed)
        parts, losses = stories.parts, []
        rows: list[tuple[str, list[float]]] = []
        for name in ("AdamW", "Muon"):
            torch.manual_seed(seed)
            model = parts.GPT(parts.GPTConfig(stories.vocab_size, LENGTH, d_model=64, n_heads=2, n_layers=2))
            weights = dict(model.named_parameters())
            choices: dict[str, Any] = dict(lr=PEAK, betas=(0.9, 0.98), weight_decay=0.0)
            muon = name == "Muon"
            optimizer = MuonAndAdamW(parts, weights, **choices) if muon else parts.AdamW(weights.values(), **choices)
            train(stories, model, optimizer, steps, LENGTH, seed, step)
            before = {matrix: weights[f"{matrix}.weight"].detach().clone() for matrix in MATRICES}
            batch = stories.rows(LENGTH, BATCH_TOKENS // LENGTH, torch.Generator().manual_seed(seed + 1))
            losses.append(parts.train_step(model, optimizer, *batch))
            for matrix, old in before.items():
                rows.append((f"{matrix}: {name}", shares(weights[f"{matrix}.weight"] - old)))
                if not muon:
                    rows.append((f"{matrix}: gradient", shares(weights[f"{matrix}.weight"].grad)))
    columns = ("", *(f"number {place}" for place in SINGULAR_VALUE_PLACES))
    shown = [[name, *(f"{value:.3f}" for value in values)] for name, values in sorted(rows)]
    yield result_table("Singular values, divided by the largest", columns, shown)
    yield f"Training loss after {steps} steps: {losses[0]:.2f} with AdamW, {losses[1]:.2f} with Muon."
