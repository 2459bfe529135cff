"""The first optimizer step of a GPT that is so narrow that its matrices fit on the page."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import torch
from grader.chapters.small_models import SENTENCE_GPT, small_gpt, tokenizer_and_batch
from grader.console.output import ProgressReporter
from grader.teaching.terminal_drawing import BLANK, Block, curve, grid, grids, line, table
from grader.teaching.walks.parts import MixedChapters
from torch import nn

REQUIRED_EXERCISES = SENTENCE_GPT

D, HEADS, LAYERS, LR = 4, 2, 4, 0.01
LATER = 100  # further steps
MAPS = ("W_q", "W_k", "W_v")
PARTS = {**{name: f"attn.{name}" for name in (*MAPS, "W_out")}, "up": "ffn.up", "down": "ffn.down"}
LAYER_NAMES = [f"layer {i}" for i in range(LAYERS)]
Matrix = list[list[float]]


def measure(parts: MixedChapters, seed: int, report_progress: ProgressReporter) -> SimpleNamespace:
    tokenizer, batch = tokenizer_and_batch(parts)
    model = small_gpt(parts, tokenizer.vocab_size, seed, d_model=D, n_heads=HEADS, n_layers=LAYERS)
    optimizer = parts.AdamW(model.parameters(), lr=LR)
    before = _first_maps(model)
    loss_before = float(parts.train_step(model, optimizer, *batch))
    after, gradients, norms = _first_maps(model), _first_maps(model, of_gradients=True), _norms(model)
    losses = [float(parts.train_step(model, optimizer, *batch)) for _ in range(LATER)]
    change = torch.cat([(after[name] - before[name]).flatten() for name in MAPS])
    downhill = torch.cat([-gradients[name].flatten() for name in MAPS])
    return SimpleNamespace(
        vocab_size=tokenizer.vocab_size,
        targets=int((batch[1] != -100).sum()),
        loss_before=loss_before,
        loss_after=losses[0],
        before={name: matrix.tolist() for name, matrix in before.items()},
        gradient={name: matrix.tolist() for name, matrix in gradients.items()},
        after={name: matrix.tolist() for name, matrix in after.items()},
        norms=norms,
        moved=(change.abs().min().item(), change.abs().max().item()),
        against=(change.sign() == downhill.sign()).float().mean().item(),
        losses=losses,
        later_norms=_norms(model),
    )


def _first_maps(model: nn.Module, of_gradients: bool = False) -> dict[str, torch.Tensor]:
    """Return copies of the three maps of the first layer, or of the gradients that the last step left there."""
    maps = {name: getattr(model.blocks[0].attn, name).weight for name in MAPS}
    return {name: (_gradient(one) if of_gradients else one).detach().clone() for name, one in maps.items()}


def _gradient(parameter: nn.Parameter) -> torch.Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


def _norms(model: nn.Module) -> list[list[float]]:
    """Return the norms of the gradients of the last step, by layer and by part."""
    return [
        [_gradient(block.get_submodule(part).weight).norm().item() for part in PARTS.values()] for block in model.blocks
    ]


def describe(n: SimpleNamespace) -> dict[str, Any]:
    sizes = [[n.targets, n.vocab_size, n.loss_before, math.log(n.vocab_size)]]
    maps: Block = []
    for name in MAPS:
        factor, unit = _unit(n.gradient[name])
        matrices = {
            "before, thousandths": _times(n.before[name], 1e3),
            f"gradient, {unit}": _times(n.gradient[name], factor),
            "after, thousandths": _times(n.after[name], 1e3),
        }
        maps += BLANK + line(name, style="bold") + grids(matrices, decimals=1)
    return {
        "first_table": table(sizes, ["words to predict", "vocabulary", "loss", "ln(vocabulary)"], ".3f", left=0),
        "map_grids": maps,
        "loss_table": table([["before the step", n.loss_before], ["after it", n.loss_after]], ["", "loss"], ".4f"),
        "norm_grid": grid(_times(n.norms, 1e3), LAYER_NAMES, list(PARTS)),
        "loss_curve": curve("loss", n.losses),
        "later_grid": grid(_times(n.later_norms, 1e3), LAYER_NAMES, list(PARTS), decimals=0),
        "shares": [sum(row[0] + row[1] for row in norms) / sum(map(sum, norms)) for norms in (n.norms, n.later_norms)],
    }


def _unit(matrix: Matrix) -> tuple[float, str]:
    """Return a factor that makes the numbers of a matrix readable, and the name of the unit."""
    largest = max(abs(value) for row in matrix for value in row)
    return (1e3, "thousandths") if largest >= 1e-3 else (1e6, "millionths") if largest >= 1e-6 else (1e9, "billionths")


def _times(matrix: Matrix, factor: float) -> Matrix:
    return [[factor * value for value in row] for row in matrix]
