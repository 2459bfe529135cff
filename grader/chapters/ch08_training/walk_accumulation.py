"""Gradients of small and of accumulated batches: a walk on the twenty sentences, and a measurement of lesson 8."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch
from grader.chapters.corpora import SENTENCES
from grader.chapters.small_models import SENTENCE_GPT, Batch, scaled_normal_, sentence_gpt, small_gpt
from grader.console.output import ProgressReporter
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import Report, result_table
from grader.teaching.terminal_drawing import BLANK, curves, table
from grader.teaching.walks.parts import MixedChapters
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

REQUIRED_EXERCISES = (*SENTENCE_GPT, "accumulated_step")

WARM_UP_STEPS = 30  # before anything is measured: the first gradients all point the same way
SIZES = (1, 2, 5, 10)
DRAWS = 40  # small batches of each size
PIECES = 4
SMALL_BATCH = 2  # sentences
STEPS, LR = 60, 3e-3
SHOWN = (1, 10, 20, 40, 60)
RUNS = ("2 sentences a step", "10 x 2, accumulated", "all 20 at once")


def measure(parts: MixedChapters, seed: int, report_progress: ProgressReporter) -> SimpleNamespace:
    model, _, whole, _ = sentence_gpt(parts, seed, WARM_UP_STEPS, report_progress)
    generator = torch.Generator().manual_seed(seed)
    full = _gradient(parts, model, whole)
    noise = {}  # by size: mean cosine with the whole gradient; mean norm of the difference / norm of the whole
    with report_progress("drawing small batches", len(SIZES) * DRAWS) as step:
        for size in SIZES:
            found = []
            for _ in range(DRAWS):
                rows = torch.randperm(len(SENTENCES), generator=generator)[:size]
                found.append(_gradient(parts, model, _rows(whole, rows)))
                step()
            cosines = [torch.cosine_similarity(one, full, dim=0).item() for one in found]
            differences = [((one - full).norm() / full.norm()).item() for one in found]
            noise[size] = (sum(cosines) / DRAWS, sum(differences) / DRAWS)

    by_length = sorted(range(len(SENTENCES)), key=lambda i: len(SENTENCES[i].split()))
    size = len(SENTENCES) // PIECES
    pieces = [_rows(whole, torch.tensor(by_length[i : i + size])) for i in range(0, len(SENTENCES), size)]
    ways = ("big", "accumulated", "averaged")
    big, accumulated, averaged = (_stepped(parts, model, way, whole, pieces) for way in ways)

    losses: dict[str, list[float]] = {}
    with report_progress("three runs", 3 * STEPS) as step:
        for name in RUNS:
            losses[name] = []
            runner, order = copy.deepcopy(model), torch.Generator().manual_seed(seed)
            optimizer = parts.AdamW(runner.parameters(), lr=LR)
            for _ in range(STEPS):
                drawn = torch.randperm(len(SENTENCES), generator=order).split(SMALL_BATCH)
                small = [_rows(whole, rows) for rows in drawn]
                if name == RUNS[0]:
                    parts.train_step(runner, optimizer, *small[0])
                elif name == RUNS[1]:
                    parts.accumulated_step(runner, optimizer, small)
                else:
                    parts.train_step(runner, optimizer, *whole)
                with torch.no_grad():
                    losses[name].append(float(parts.cross_entropy(runner(whole[0])[0], whole[1])))
                step()
    return SimpleNamespace(
        targets=_count(whole),
        length=full.norm().item(),
        noise=noise,
        counts=[_count(piece) for piece in pieces],
        positions=(max(piece[0].numel() for piece in pieces), whole[0].numel()),
        step_length=(big - parameters_to_vector(model.parameters())).norm().item(),
        accumulated_off=(accumulated - big).abs().max().item(),
        averaged_off=(averaged - big).abs().max().item(),
        losses=losses,
    )


def _rows(batch: Batch, rows: Tensor) -> Batch:
    """Take some sentences of a batch and cut the padding to the longest of them."""
    inputs, targets = batch[0][rows], batch[1][rows]
    wide = int((targets != -100).sum(dim=1).max())
    return inputs[:, :wide], targets[:, :wide]


def _count(batch: Batch) -> int:
    return int((batch[1] != -100).sum())


def _gradient(parts: MixedChapters, model: nn.Module, batch: Batch) -> Tensor:
    """Return the gradient of the mean loss with respect to all weights, as one vector."""
    loss = parts.cross_entropy(model(batch[0])[0], batch[1])
    return parameters_to_vector(torch.autograd.grad(loss, list(model.parameters())))


def _stepped(parts: MixedChapters, model: nn.Module, way: str, whole: Batch, pieces: Sequence[Batch]) -> Tensor:
    """Return the weights after one SGD step from the same starting point."""
    copied = copy.deepcopy(model)
    optimizer = torch.optim.SGD(copied.parameters(), lr=1.0)
    if way == "big":
        parts.train_step(copied, optimizer, *whole)
    elif way == "accumulated":
        parts.accumulated_step(copied, optimizer, pieces)
    else:
        optimizer.zero_grad()
        for inputs, targets in pieces:
            (parts.cross_entropy(copied(inputs)[0], targets) / len(pieces)).backward()
        optimizer.step()
    return parameters_to_vector(copied.parameters()).detach()


def describe(n: SimpleNamespace) -> dict[str, Any]:
    rows = []
    for name, losses in n.losses.items():
        worse = sum(after > before for before, after in zip(losses, losses[1:]))
        rows.append([name, *(losses[step - 1] for step in SHOWN), worse])
    noise = [[size, *found, n.noise[1][1] * size**-0.5] for size, found in n.noise.items()]
    columns = ["sentences", "cosine", "noise", "noise of one / root of size"]
    accumulated = ["pieces weighted by their words (accumulated_step)", n.accumulated_off]
    return {
        "sentences": len(SENTENCES),
        "noise_table": table(noise, columns, ".2f", left=0),
        "pieces_table": table([["words to predict", *n.counts]], ["piece", *map(str, range(PIECES))]),
        "step_table": table([accumulated, ["the mean of the pieces' mean losses", n.averaged_off]], form=".0e"),
        "loss_curves": curves(n.losses) + BLANK,
        "loss_table": table(rows, ["after step", *map(str, SHOWN), "worse"], ".3f"),
        "apart": max(abs(a - b) for a, b in zip(n.losses[RUNS[1]], n.losses[RUNS[2]])),
    }


# ---- lesson 8


def report_accumulation(chapters: ChapterPackage, seed: int) -> Report:
    """Lesson 8: the loss and the gradient of a batch that is split into two unequal pieces, weighted in three ways.

    The model is a small GPT with random weights. The first piece is a row with 3 kept targets, the second a row with 9.
    """
    models, training = chapters.module("ch07_models"), chapters.module("ch08_training")
    vocabulary, kept, positions = 50, (3, 9), 9
    model = small_gpt(models, vocabulary, seed, max_len=positions, d_model=16)
    scaled_normal_(model)
    inputs, targets = torch.randint(vocabulary, (2, len(kept), positions))
    for row, count in zip(targets, kept):
        row[count:] = -100
    still = torch.optim.SGD(model.parameters(), lr=0.0)  # changes nothing, so the gradients can be read afterwards
    pieces = list(zip(inputs.split(1), targets.split(1)))

    def gradient() -> Tensor:
        return parameters_to_vector(parameter.grad for parameter in model.parameters())

    loss, whole = training.train_step(model, still, inputs, targets), gradient()
    weighted_loss, weighted = training.accumulated_step(model, still, pieces), gradient()
    found = [(training.train_step(model, still, *piece), gradient()) for piece in pieces]
    losses, total = [loss for loss, _ in found], sum(gradient for _, gradient in found)

    def error(gradient: Tensor) -> str:
        return f"{100 * (gradient - whole).norm() / whole.norm():.0f} %"

    counts, shown = " and ".join(map(str, kept)), " and ".join(f"{loss:.4f}" for loss in losses)
    yield f"The losses of the pieces, with {counts} kept targets: {shown}."
    shares = " and ".join(f"{count}/{sum(kept)}" for count in kept)
    averaged = f"each piece's mean loss divided by {len(pieces)}, the number of pieces"
    rows = [
        ["the whole batch at once", loss, ""],
        [f"pieces weighted by {shares}", weighted_loss, error(weighted)],
        [averaged, sum(losses) / len(pieces), error(total / len(pieces))],
        ["not divided at all", "", error(total)],
    ]
    columns = ("", "loss", "error of the gradient, as a share of the right gradient's length")
    yield result_table("one gradient of both pieces", columns, rows, ".4f")
