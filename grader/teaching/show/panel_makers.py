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

Labels = Sequence[Any] | int  # an int numbers them from 0

WORDS = ("the", "cat", "that", "saw", "the", "dog", "ran")
QUERY_KEY = ("query", "key")
OUTPUT_INPUT = ("output at", "changed at")
POSITION_FEATURE = ("position", "feature")
ALONG_X = torch.arange(-40, 41) / 10
MAX_SHOWN = 64  # rows and columns of a wrong, too large table


def make_grid(
    title: str,
    values: Any,
    rows: Labels,
    columns: Labels,
    axes: tuple[str, str] = ("", ""),
    what: str = "the result",
    **more: Any,
) -> Grid:
    """Make a table of a matrix. A matrix of an unexpected size is drawn all the same, with numbers as labels."""
    rows, columns = _list_labels(rows), _list_labels(columns)
    if not isinstance(values, Tensor) or values.dim() != 2 or values.is_complex() or values.is_meta:
        shaped(values, (len(rows), len(columns)), what)
        raise Mismatch(f"{what} holds no numbers that can be drawn", values)
    values = values.detach().to(torch.float64)[:MAX_SHOWN, :MAX_SHOWN]
    if values.shape != (len(rows), len(columns)):
        rows, columns = (_list_labels(size) for size in values.shape)
    return Grid(title, values.tolist(), rows, columns, *axes, **more)


def make_chart(
    title: str, x: Sequence[float], lines: Mapping[str, Any], x_name: str, y_name: str, **more: Any
) -> Chart:
    """Make a chart of lines over the same x; each line is a tensor or a list of as many numbers."""
    drawn = {}
    for name, values in lines.items():
        values = torch.as_tensor(values, dtype=torch.float64).detach()
        drawn[name] = [(float(a), float(b)) for a, b in zip(x, shaped(values, (len(x),), name or "the line").tolist())]
    return Chart(title, drawn, x_name, y_name, **more)


def make_bars(title: str, labels: Labels, values: Any, name: str = "", **more: Any) -> Bars:
    labels = _list_labels(labels)
    values = torch.as_tensor(values) if isinstance(values, list | tuple) else values
    numbers = shaped(values, (len(labels),), "the result").detach().to(torch.float64).tolist()
    return Bars(title, labels, numbers, name, **more)


def _list_labels(labels: Labels) -> list[str]:
    return [str(label) for label in (range(labels) if isinstance(labels, int) else labels)]


def expect_pair(answer: Any, what: str) -> Sequence:
    """Return the two results of a call; raise Mismatch with this sentence for anything else."""
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        raise Mismatch(what, answer)
    return answer


def first_result(answer: Any) -> Any:
    return answer[0] if isinstance(answer, tuple | list) and answer else answer


def random_tensor(seed: int, *shape: int) -> Tensor:
    """Return normally distributed numbers, the same on both sides."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def fix_weights(module: Handle, seed: int = 0, scale: float = 1.0) -> Handle:
    """Load weights by name, the same on both sides (matrices random, norms 1, biases 0), and set eval mode."""
    values = {}
    for name, parameter in parameters(module).items():
        if parameter.dim() < 2:
            values[name] = torch.full_like(parameter, 0.0 if name.endswith("bias") else 1.0)
        else:
            numbers = random_tensor(seed * 1009 + sum(map(ord, name)), *parameter.shape)
            values[name] = numbers * scale / math.sqrt(parameter.size(-1))
    load(module, values)
    module.eval()
    return module


def exchange_words(ids: Sequence[int], vocab_size: int) -> Tensor:
    """Return the ids, and below them one copy for each position with that id exchanged."""
    rows = torch.tensor(ids).repeat(len(ids) + 1, 1)
    for position in range(len(ids)):
        rows[position + 1, position] = (rows[0, position] + 4) % (vocab_size - 1) + 1
    return rows


def influence_grid(
    title: str,
    call: Callable[[Tensor], Any],
    x: Tensor,
    outputs: Labels = WORDS,
    inputs: Labels = WORDS,
    axes: tuple[str, str] = OUTPUT_INPUT,
) -> Grid:
    """Draw how far each output moves when one input is changed, for x of (inputs, D).

    All changes run as one batch. Its first row is x itself; each further row is x with one position changed.
    """
    changed = x.repeat(len(x) + 1, 1, 1)
    for position in range(len(x)):
        changed[position + 1, position] += random_tensor(7, x.size(1))
    outputs = _list_labels(outputs)
    return make_grid(title, measure_change(call(changed), len(x), len(outputs)), outputs, inputs, axes)


def measure_change(result: Any, inputs: int, outputs: int) -> Tensor:
    """Return the distance of each row's outputs from the first row's, (outputs, inputs).

    The result is (inputs + 1, outputs, D).
    """
    is_tensor = isinstance(result, Tensor)
    if not is_tensor or result.dim() != 3 or tuple(result.shape[:2]) != (inputs + 1, outputs):
        shaped(result, (inputs + 1, outputs, result.shape[-1] if is_tensor and result.dim() else 1), "the result")
    return (result[1:] - result[:1]).detach().norm(dim=-1).T
