"""Lesson 6: how much gradient reaches the input of each of 24 blocks, with and without residual connections.

Weights are drawn from N(0, 1/fan_in), biases are zero, norms do not scale or shift, the input is normal noise, and so is the gradient
at the output. So only the path through the blocks is measured, before any training.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType

import torch
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements._running import make_table, run_measurement
from rich.table import Table
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

BLOCKS, D_MODEL, N_HEADS, BATCH, POSITIONS = 24, 32, 4, 2, 16
DRAWS = 8
WAYS = ("pre-norm", "post-norm", "no residuals", "neither")  # neither residuals nor norms
SHOWN = (24, 18, 12, 6, 1)  # the inputs of these blocks


@dataclass(frozen=True)
class Gradients:
    """The gradients at the input of each block, first block first, of a gradient at the output of the last block."""

    sizes: list[float]  # the norms; the gradient at the output has norm 1
    as_sent: list[float]  # their dot products with the output's gradient, which has norm 1: how far they go in its direction
    alike: float  # the mean cosine between neighbouring positions, at the output


def apply_block(block: nn.Module, way: str, x: Tensor) -> Tensor:
    """Apply one block, assembled in this way from chapter 6's parts."""
    if way == "pre-norm":
        x = x + block.attn(block.ln1(x))
        return x + block.ffn(block.ln2(x))
    if way == "post-norm":
        x = block.ln1(x + block.attn(x))
        return block.ln2(x + block.ffn(x))
    if way == "no residuals":
        return block.ffn(block.ln2(block.attn(block.ln1(x))))
    return block.ffn(block.attn(x))


def measure_way(chapter: ModuleType, way: str, seed: int) -> Gradients:
    """Measure one draw of weights, input and gradient; every way gets the same draw."""
    chance = torch.Generator().manual_seed(seed)

    def random_normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=chance, dtype=torch.float64)

    with torch.enable_grad():
        blocks = [chapter.PreNormBlock(D_MODEL, N_HEADS).double() for _ in range(BLOCKS)]
        for name, parameter in (pair for block in blocks for pair in block.named_parameters()):
            if parameter.dim() > 1:
                parameter.data = random_normal(*parameter.shape) / math.sqrt(parameter.size(1))
            elif name.endswith("bias"):
                parameter.data.zero_()
        x, sent = random_normal(BATCH, POSITIONS, D_MODEL).requires_grad_(), random_normal(BATCH, POSITIONS, D_MODEL)
        inputs = [x]
        for block in blocks:
            inputs.append(apply_block(block, way, inputs[-1]))
        output = inputs.pop()
        arrived = torch.autograd.grad((output * sent).sum(), inputs)
    sizes = [float(gradient.norm() / sent.norm()) for gradient in arrived]
    as_sent = [float((gradient * sent).sum() / sent.square().sum()) for gradient in arrived]
    alike = float(cosine_similarity(output.detach()[:, 1:], output.detach()[:, :-1], dim=-1).mean())
    return Gradients(sizes, as_sent, alike)


def measure(chapter: ModuleType, seed: int = 0) -> dict[str, list[Gradients]]:
    """Measure every way through the blocks of chapter 6, with DRAWS draws from this seed on."""
    return {way: [measure_way(chapter, way, seed + draw) for draw in range(DRAWS)] for way in WAYS}


def rows(found: dict[str, list[Gradients]]) -> list[list[str]]:
    """Make the table: the smallest and largest of all draws at some blocks, and last the similarity of the vectors at the output."""
    table = [[f"norm, {block}", *(_format_range([way.sizes[block - 1] for way in ways], ".2g") for ways in found.values())] for block in SHOWN]
    table += [[f"as sent, {block}", *(_format_range([way.as_sent[block - 1] for way in ways], ".2f") for ways in found.values())] for block in (12, 1)]
    return [*table, ["neighbours", *(_format_range([way.alike for way in ways], ".2f") for ways in found.values())]]


def _format_range(values: list[float], form: str) -> str:
    low, high = (f"{value:{form}}".replace("-0.00", "0.00") for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def report(chapters: ChapterPackage, seed: int) -> Iterator[Table | str]:
    title = f"A gradient of norm 1 at the output of {BLOCKS} blocks: the gradients at their inputs"
    yield make_table(title, ("block", *WAYS), rows(measure(chapters.module("ch06_blocks"), seed)))
    yield f"Smallest and largest of {DRAWS} draws. norm: of the gradient at the input. as sent: its dot product with the output's gradient."
    yield "neighbours: cosine of neighbouring positions at the output. neither: no residuals and no norms."


def main(arguments: list[str] | None = None) -> int:
    return run_measurement(__doc__, "ch06", report, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
