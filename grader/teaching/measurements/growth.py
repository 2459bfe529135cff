"""Lesson 5: the size of the numbers after many feed-forward layers, without norms and with a norm before each layer.

Every layer adds its output to its input. The weights are drawn from N(0, 1/fan_in), there are no biases, and the input is normal noise.
All ways get the same weights and the same input.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from types import ModuleType

import torch
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements._running import make_table, run_measurement
from rich.table import Table
from torch import Tensor

WIDTH, VECTORS = 256, 32
SHOWN = (1, 6, 12, 24, 48)  # numbers of layers
DRAWS = 8  # further draws of the weights
ONES, DROPPED = 10_000, 0.25
WITHOUT = "no norm"


def measure(layers: ModuleType, seed: int = 0, *, norms: bool = True) -> dict[str, list[float]]:
    """Return the root mean square after each layer, for each kind of norm; with `norms=False` only without one."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(VECTORS, WIDTH, generator=generator)
    stack = []
    for _ in range(SHOWN[-1]):
        layer = layers.FeedForward(WIDTH).requires_grad_(False)
        for linear in (layer.up, layer.down):
            linear.weight.copy_(torch.randn(linear.weight.shape, generator=generator) / math.sqrt(linear.in_features))
            linear.bias.zero_()
        stack.append(layer)
    ways: dict[str, Callable[[Tensor], Tensor]] = {WITHOUT: lambda x: x}
    if norms:
        ways["LayerNorm before each feed-forward"] = layers.LayerNorm(WIDTH).requires_grad_(False)
        ways["RMSNorm before each feed-forward"] = layers.RMSNorm(WIDTH).requires_grad_(False)
    return {name: _sizes(x, stack, norm) for name, norm in ways.items()}


def _sizes(x: Tensor, stack: list[torch.nn.Module], norm: Callable[[Tensor], Tensor]) -> list[float]:
    sizes = []
    for layer in stack:
        x = x + layer(norm(x))
        sizes.append(x.square().mean().sqrt().item())
    return sizes


def drop_ones(layers: ModuleType, seed: int = 0) -> tuple[int, float]:
    """Apply dropout to ones, and return the number of zeros and the mean."""
    torch.manual_seed(seed)
    left = layers.dropout(torch.ones(ONES), DROPPED)
    return int((left == 0).sum()), left.mean().item()


def _format(size: float) -> str:
    return f"{size:#.3g}".rstrip(".") if size < 1000 else f"{size:.0f}"


def report(chapters: ChapterPackage, seed: int) -> Iterator[Table | str]:
    layers = chapters.module("ch05_layers")
    found = measure(layers, seed)
    rows = [[name, *(_format(sizes[n - 1]) for n in SHOWN)] for name, sizes in found.items()]
    yield make_table("root mean square of the numbers", ("after so many layers", *map(str, SHOWN)), rows)
    last = [measure(layers, seed + other, norms=False)[WITHOUT][-1] for other in range(1, DRAWS + 1)]
    yield f"No norm, after {SHOWN[-1]} layers, in {DRAWS} other draws of the weights: {min(last):,.0f} to {max(last):,.0f}."
    zeros, mean = drop_ones(layers, seed)
    yield f"Dropout of {ONES:,} ones with p = {DROPPED}: {zeros:,} zeros, and a mean of {mean:.3f}."


def main(arguments: list[str] | None = None) -> int:
    return run_measurement(__doc__, "ch05", report, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
