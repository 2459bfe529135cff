"""How numbers grow in many feed-forward layers with random weights."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import torch
from grader.chapters.small_models import scaled_normal_
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import Report, result_table
from torch import Tensor


@torch.no_grad()
def report_growth(chapters: ChapterPackage, seed: int) -> Report:
    """Lesson 5: the size of the numbers after many feed-forward layers, without norms and with one before each layer.

    Every layer adds its output to its input. The weights are drawn from N(0, 1/fan_in), there are no biases, and the
    input is normal noise. All ways get the same weights and the same input.
    """
    layers = chapters.module("ch05_layers")
    width, shown, other_draws, ones, dropped = 256, (1, 6, 12, 24, 48), 8, 10_000, 0.25
    norms: dict[str, Callable[[Tensor], Tensor]] = {
        "no norm": lambda x: x,
        "LayerNorm before each feed-forward": layers.LayerNorm(width),
        "RMSNorm before each feed-forward": layers.RMSNorm(width),
    }
    sizes = {name: sizes_of_numbers(layers, norm, width, shown[-1], seed) for name, norm in norms.items()}
    rows = [[name, *(_three_digits(found[n - 1]) for n in shown)] for name, found in sizes.items()]
    yield result_table("root mean square of the numbers", ("after so many layers", *map(str, shown)), rows)
    last = [
        sizes_of_numbers(layers, norms["no norm"], width, shown[-1], seed + 1 + draw)[-1] for draw in range(other_draws)
    ]
    yield (
        f"No norm, after {shown[-1]} layers, in {other_draws} other draws of the weights: "
        f"{min(last):,.0f} to {max(last):,.0f}."
    )
    torch.manual_seed(seed)
    kept = layers.dropout(torch.ones(ones), dropped)
    zeros = int((kept == 0).sum())
    yield f"Dropout of {ones:,} ones with p = {dropped}: {zeros:,} zeros, and a mean of {kept.mean():.3f}."


def sizes_of_numbers(
    layers: ModuleType,
    norm: Callable[[Tensor], Tensor],
    width: int,
    count: int,
    seed: int,
    dtype: torch.dtype = torch.float32,
) -> list[float]:
    """Return the root mean square of the numbers after each of `count` feed-forward layers, each with a residual."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(32, width, generator=generator).to(dtype)
    sizes = []
    for _ in range(count):
        layer = layers.FeedForward(width)
        scaled_normal_(layer, generator)
        for linear in (layer.up, layer.down):
            linear.bias.zero_()
        x = x + layer.to(dtype)(norm(x))
        sizes.append(x.square().mean().sqrt().item())
    return sizes


def _three_digits(size: float) -> str:
    return f"{size:#.3g}".rstrip(".") if size < 1000 else f"{size:.0f}"
