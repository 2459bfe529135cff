"""Lesson 6: how much gradient reaches the input of each of 24 blocks, with and without residual connections.

    python -m grader.teaching.measurements.depth

Weights are drawn from N(0, 1/fan_in), biases are zero, norms stretch and shift nothing, the input is normal noise, and the gradient
sent back into the output is normal noise too: only the way through the blocks is measured, before any training.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import ModuleType

import torch
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import package_sources, resolve
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

BLOCKS, D_MODEL, N_HEADS, BATCH, POSITIONS = 24, 32, 4, 2, 16
WAYS = ("pre-norm", "post-norm", "no residuals", "neither")  # neither residuals nor norms
SHOWN = (24, 18, 12, 6, 1)  # the inputs of these blocks


@dataclass(frozen=True)
class Way:
    """What comes back to the input of each block, first block first, of a gradient sent into the output of the last."""

    sizes: list[float]  # its norm; what was sent has norm 1
    as_sent: list[float]  # how much of what was sent is in it: 1 for all, 0 for what points elsewhere
    alike: float  # the mean cosine between neighbouring positions, at the output


def through(block: nn.Module, way: str, x: Tensor) -> Tensor:
    """One block of chapter 6's parts, put together in this way."""
    if way == "pre-norm":
        x = x + block.attn(block.ln1(x))
        return x + block.ffn(block.ln2(x))
    if way == "post-norm":
        x = block.ln1(x + block.attn(x))
        return block.ln2(x + block.ffn(x))
    if way == "no residuals":
        return block.ffn(block.ln2(block.attn(block.ln1(x))))
    return block.ffn(block.attn(x))


def measured(chapter: ModuleType, way: str, seed: int) -> Way:
    """One draw of weights, input and gradient; every way gets the same ones."""
    chance = torch.Generator().manual_seed(seed)

    def noise(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=chance, dtype=torch.float64)

    with torch.enable_grad():
        blocks = [chapter.PreNormBlock(D_MODEL, N_HEADS).double() for _ in range(BLOCKS)]
        for name, parameter in (pair for block in blocks for pair in block.named_parameters()):
            if parameter.dim() > 1:
                parameter.data = noise(*parameter.shape) / math.sqrt(parameter.size(1))
            elif name.endswith("bias"):
                parameter.data.zero_()
        x, sent = noise(BATCH, POSITIONS, D_MODEL).requires_grad_(), noise(BATCH, POSITIONS, D_MODEL)
        inputs = [x]
        for block in blocks:
            inputs.append(through(block, way, inputs[-1]))
        output = inputs.pop()
        arrived = torch.autograd.grad((output * sent).sum(), inputs)
    sizes = [float(gradient.norm() / sent.norm()) for gradient in arrived]
    as_sent = [float((gradient * sent).sum() / sent.square().sum()) for gradient in arrived]
    alike = float(cosine_similarity(output.detach()[:, 1:], output.detach()[:, :-1], dim=-1).mean())
    return Way(sizes, as_sent, alike)


def measure(draws: int = 8) -> dict[str, list[Way]]:
    """Every way through the reference's blocks, drawn this many times."""
    chapter = load_syllabus().chapter("ch06_blocks")
    package = ChapterPackage(package_sources(resolve("solutions"), chapter, whole=True), "measured")
    try:
        module = package.module(chapter.name)
        return {way: [measured(module, way, seed) for seed in range(draws)] for way in WAYS}
    finally:
        package.close()


def rows(found: dict[str, list[Way]]) -> list[list[str]]:
    """The table: least and greatest of all draws at some blocks, last how alike the vectors are at the output."""
    table = [[f"norm, {block}", *(_reach([way.sizes[block - 1] for way in ways], ".2g") for ways in found.values())] for block in SHOWN]
    table += [[f"as sent, {block}", *(_reach([way.as_sent[block - 1] for way in ways], ".2f") for ways in found.values())] for block in (12, 1)]
    return [*table, ["neighbours", *(_reach([way.alike for way in ways], ".2f") for ways in found.values())]]


def _reach(values: list[float], form: str) -> str:
    low, high = (f"{value:{form}}".replace("-0.00", "0.00") for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def main() -> None:
    table = Table(title=f"A gradient of norm 1 sent back through {BLOCKS} blocks: what arrives at their inputs")
    table.add_column("block", no_wrap=True)
    for way in WAYS:
        table.add_column(way, justify="right", no_wrap=True)
    for row in rows(measure()):
        table.add_row(*row)
    console = Console(width=92)
    console.print(table)
    console.print("Least and greatest of 8 draws. norm: of what arrives. as sent: how much of what was")
    console.print("sent is in it, 1 for all. neighbours: cosine of neighbouring positions at the output.")
    console.print("neither: no residuals and no norms.")


if __name__ == "__main__":
    main()
