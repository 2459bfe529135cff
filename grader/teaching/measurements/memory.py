"""Lesson 14: how much memory attention takes as texts grow, and what training keeps for the backward pass.

One head of width 64, in strips of 64 keys and with a window of 64 keys. Entries are counted, not bytes, with the watch that the tests use: all new
tensors that exist at one moment. The numbers are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType

import torch
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements._running import make_table, run_measurement
from grader.verdict.memory import StorageWatch
from rich.table import Table
from torch import Tensor, nn

LENGTHS = (256, 1024, 4096)
WIDTH, BLOCK, WINDOW = 64, 64, 64
LAYERS, BATCH, POSITIONS = (2, 4, 8), 2, 32  # of the model whose training step is measured


def peak(f: Callable[..., object], *args: object) -> int:
    """The entries of all new tensors that exist at one moment, at most, while `f(*args)` runs."""
    with torch.no_grad(), StorageWatch(args) as seen:
        f(*args)
    return seen.peak


def kept(f: Callable[..., Tensor], *args: object) -> int:
    """The entries that wait for the backward pass after `f(*args)`, without the arguments and the result."""
    with StorageWatch(args) as seen:
        result = f(*args)
        return seen.alive - result.numel()


def measure_attention(efficient: ModuleType, attention: ModuleType, seed: int) -> dict[str, list[int]]:
    """For each length the peak of plain, tiled and windowed attention, and what plain and efficient attention keep for the backward pass."""

    def plain(*qkv: Tensor) -> Tensor:
        return attention.scaled_dot_product_attention(*qkv)[0]

    found: dict[str, list[int]] = {}
    for length in LENGTHS:
        generator = torch.Generator().manual_seed(seed)
        qkv = [torch.randn(1, 1, length, WIDTH, generator=generator).requires_grad_() for _ in range(3)]
        peaks = [peak(plain, *qkv), peak(efficient.tiled_attention, *qkv, BLOCK), peak(efficient.windowed_attention, *qkv, WINDOW)]
        found[f"{length:,}"] = [*peaks, kept(plain, *qkv), kept(efficient.efficient_attention, *qkv, BLOCK)]
    return found


def measure_checkpoints(efficient: ModuleType, blocks: ModuleType, seed: int) -> dict[str, list[int]]:
    """For each number of blocks what waits for the backward pass: plainly, and with each block checkpointed."""

    def plain(x: Tensor, *model: nn.Module) -> Tensor:
        for block in model:
            x = block(x)
        return x

    def checkpointed(x: Tensor, *model: nn.Module) -> Tensor:
        for block in model:
            x = efficient.checkpointed(block, x)
        return x

    found = {}
    for layers in LAYERS:
        torch.manual_seed(seed)
        model = [blocks.PreNormBlock(WIDTH, 4) for _ in range(layers)]
        x = torch.randn(BATCH, POSITIONS, WIDTH)
        found[str(layers)] = [kept(plain, x, *model), kept(checkpointed, x, *model)]
    return found


def report(chapters: ChapterPackage, seed: int) -> Iterator[Table | str]:
    efficient = chapters.module("ch14_efficient_attention")
    found = measure_attention(efficient, chapters.module("ch03_attention"), seed)
    title, rows = "entries of all new tensors at one moment, one head of width 64", [[name, *_text(counts[:3])] for name, counts in found.items()]
    yield make_table(title, ("positions", "plain", "tiled", "windowed"), rows)
    rows = [[f"{name} positions", *_text(counts[3:])] for name, counts in found.items()]
    yield make_table("entries kept for the backward pass", ("positions", "plain attention", "efficient attention"), rows)
    steps = measure_checkpoints(efficient, chapters.module("ch06_blocks"), seed)
    names = ("blocks", "kept, plain", "kept, each block checkpointed")
    yield make_table("entries kept for the backward pass, blocks of width 64", names, [[name, *_text(counts)] for name, counts in steps.items()])


def _text(counts: list[int]) -> list[str]:
    return [f"{count:,}" for count in counts]


def main(arguments: list[str] | None = None) -> int:
    return run_measurement(__doc__, "ch14", report, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
