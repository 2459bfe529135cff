"""Lesson 8: the loss and the gradient of a batch that is split into two unequal pieces, with three ways to weight the pieces.

The model is a small GPT with random weights. The first piece is a row with 3 kept targets, the second a row with 9.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import ModuleType

import torch
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements._running import make_table, run_measurement
from rich.table import Table
from torch import Tensor, nn

VOCABULARY, D_MODEL, N_HEADS, LAYERS = 50, 16, 2, 2
KEPT, POSITIONS = (3, 9), 9


def measure(models: ModuleType, training: ModuleType, seed: int = 0) -> tuple[list[float], list[tuple[str, float | None, float | None]]]:
    """Return the loss of each piece, and for each way its name, its loss and the relative error of its gradient, compared with that of the whole batch."""
    torch.manual_seed(seed)
    model = models.GPT(models.GPTConfig(VOCABULARY, POSITIONS, D_MODEL, N_HEADS, LAYERS))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.copy_(torch.randn(parameter.shape) / math.sqrt(parameter.size(1)))
    inputs, targets = torch.randint(VOCABULARY, (2, len(KEPT), POSITIONS))
    for row, kept in zip(targets, KEPT):
        row[kept:] = -100
    still = torch.optim.SGD(model.parameters(), lr=0.0)  # its steps change nothing, so the gradients can be read afterwards
    pieces = list(zip(inputs.split(1), targets.split(1)))

    loss = training.train_step(model, still, inputs, targets)
    right = _gradient(model)
    accumulated = training.accumulated_step(model, still, pieces)
    accumulated_gradient = _gradient(model)
    losses, gradients = [], []
    for piece in pieces:
        losses.append(training.train_step(model, still, *piece))
        gradients.append(_gradient(model))

    def error(gradient: Tensor) -> float:
        return float((gradient - right).norm() / right.norm())

    total = sum(KEPT)
    return losses, [
        ("the whole batch at once", loss, None),
        (f"pieces weighted by {' and '.join(f'{kept}/{total}' for kept in KEPT)}", accumulated, error(accumulated_gradient)),
        (f"each piece's mean loss divided by {len(pieces)}, the number of pieces", sum(losses) / len(pieces), error(sum(gradients) / len(pieces))),
        ("not divided at all", None, error(sum(gradients))),
    ]


def _gradient(model: nn.Module) -> Tensor:
    """Return all gradients as one vector."""
    return torch.cat([parameter.grad.flatten().clone() for parameter in model.parameters()])


def report(chapters: ChapterPackage, seed: int) -> Iterator[Table | str]:
    losses, ways = measure(chapters.module("ch07_models"), chapters.module("ch08_training"), seed)
    yield f"The losses of the pieces, with {' and '.join(map(str, KEPT))} kept targets: {' and '.join(f'{loss:.4f}' for loss in losses)}."
    rows = [[name, "" if loss is None else f"{loss:.4f}", "" if error is None else f"{100 * error:.0f} %"] for name, loss, error in ways]
    yield make_table("one gradient of both pieces", ("", "loss", "error of the gradient, as a share of the right gradient's length"), rows)


def main(arguments: list[str] | None = None) -> int:
    return run_measurement(__doc__, "ch08", report, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
