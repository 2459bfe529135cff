"""Helpers to make panels: a tensor as a panel, the example sentence, weights that are the same on both sides."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from grader.execution.proxy import Handle, load, parameters
from grader.teaching.show.panels import Bars, Chart, Grid
from grader.verdict.comparing import Mismatch, shaped
from torch import Tensor

WORDS = ("the", "cat", "that", "saw", "the", "dog", "ran")
LETTERS = "abcdefgh"
MOST = 64  # rows and columns shown of a wrong, too large table


def make_grid(title: str, values: Any, rows: Sequence[Any], columns: Sequence[Any], what: str = "the result", **more: Any) -> Grid:
    """Make a table of a matrix. A matrix of an unexpected size is drawn all the same, with numbers as labels."""
    if not isinstance(values, Tensor) or values.dim() != 2 or values.is_complex() or values.is_meta:
        shaped(values, (len(rows), len(columns)), what)
        raise Mismatch(f"{what} holds no numbers that can be drawn", values)
    values = values.detach().to(torch.float64)[:MOST, :MOST]
    if values.shape != (len(rows), len(columns)):
        rows, columns = number_labels(values.size(0)), number_labels(values.size(1))
    return Grid(title, values.tolist(), [str(row) for row in rows], [str(column) for column in columns], **more)


def make_chart(title: str, x: Sequence[float], lines: Mapping[str, Any], x_name: str, y_name: str, **more: Any) -> Chart:
    """Make a chart of lines over the same x; each line is a tensor or a list of as many numbers."""
    drawn = {}
    for name, values in lines.items():
        values = torch.as_tensor(values, dtype=torch.float64).detach()
        drawn[name] = [(float(a), float(b)) for a, b in zip(x, shaped(values, (len(x),), name or "the line").tolist())]
    return Chart(title, drawn, x_name, y_name, **more)


def make_bars(title: str, labels: Sequence[Any], values: Any, name: str = "", **more: Any) -> Bars:
    values = torch.as_tensor(values) if isinstance(values, list | tuple) else values
    return Bars(title, [str(label) for label in labels], shaped(values, (len(labels),), "the result").detach().to(torch.float64).tolist(), name, **more)


def number_labels(count: int) -> list[str]:
    return [str(i) for i in range(count)]


def random_tensor(seed: int, *shape: int) -> Tensor:
    """Return normally distributed numbers, the same on both sides."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def fix_weights(module: Handle, seed: int = 0, scale: float = 1.0) -> Handle:
    """Load the same weights by name on both sides (matrices random, norms 1, biases 0), and set eval mode; return the module."""
    values = {}
    for name, parameter in parameters(module).items():
        if parameter.dim() < 2:
            values[name] = torch.full_like(parameter, 0.0 if name.endswith("bias") else 1.0)
        else:
            values[name] = random_tensor(seed * 1009 + sum(map(ord, name)), *parameter.shape) * scale / math.sqrt(parameter.size(-1))
    load(module, values)
    module.eval()
    return module


def measure_influence(call: Callable[[Tensor], Any], x: Tensor, out: Sequence[Any] | None = None) -> Tensor:
    """Measure how far each output moves when one input is changed: (outputs, inputs), for x of (inputs, D).

    All changes run as one batch. Its first row is x itself; each further row is x with one position changed.
    """
    T = x.size(0)
    changed = x.repeat(T + 1, 1, 1)
    for position in range(T):
        changed[position + 1, position] += random_tensor(7, x.size(1))
    return measure_change(call(changed), T, len(out) if out else T, "the result")


def measure_change(result: Any, inputs: int, outputs: int, what: str) -> Tensor:
    """Return the distance of each row's outputs from the first row's, (outputs, inputs), given results (inputs + 1, outputs, D)."""
    if not isinstance(result, Tensor) or result.dim() != 3 or tuple(result.shape[:2]) != (inputs + 1, outputs):
        wide = result.shape[-1] if isinstance(result, Tensor) and result.dim() else 1
        shaped(result, (inputs + 1, outputs, wide), what)
    return (result[1:] - result[:1]).detach().norm(dim=-1).T
