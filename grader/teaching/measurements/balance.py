"""Lesson 11: if all tokens start at the same experts, does the load spread out, with and without the balance loss?

The task has parts that experts can share: each token comes from one of eight places, and each place has its own linear map to learn,
too many for one narrow expert. Every token's first feature is 1. From this feature the router starts with a score of START for its
first top_k experts; all other scores are small and random. So all tokens choose the same experts. Every run has the same tokens and
the same initial weights, and trains all parameters with Adam on the error plus `factor` times the balance loss.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import torch
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.errors import ChapterBroken
from grader.execution.target import NoTarget, package_sources, resolve
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from torch import Tensor

EXPERTS, D_MODEL, D_FF, PLACES = 4, 16, 8, 8
START = 4.0
TOP_KS = (1, 2)
FACTORS = (0.0, 0.01, 0.1)
STEPS = 1000
BATCH, POSITIONS = 8, 16
SEED = 2  # typical of seeds 0 to 3, which differ in how soon a third expert is used without the loss


@dataclass(frozen=True)
class Checkpoint:
    """The state after some steps, measured on tokens that were not in training."""

    shares: list[float]  # of all choices, by expert
    loss: float  # the balance loss
    error: float  # mean squared, as a share of the targets' own mean square

    @property
    def effective_experts(self) -> float:
        """The number of equally used experts that would have the same entropy."""
        return math.exp(-sum(share * math.log(share) for share in self.shares if share > 0))


@dataclass(frozen=True)
class Run:
    top_k: int
    factor: float
    checkpoints: dict[int, Checkpoint]  # by step


def checkpoint_steps(steps: int) -> list[int]:
    """Return the steps at which the layer is measured."""
    return sorted({0, steps // 10, steps * 3 // 10, steps})


def measure(
    chapter: ModuleType,
    seed: int = SEED,
    steps: int = STEPS,
    top_ks: tuple[int, ...] = TOP_KS,
    factors: tuple[float, ...] = FACTORS,
    each_step: Callable[[], None] = lambda: None,
) -> list[Run]:
    """Train a layer for each top_k and factor, all on the same tokens and from the same initial weights."""
    with torch.enable_grad():
        return [Run(k, factor, _train_layer(chapter, k, factor, seed, steps, each_step)) for k in top_ks for factor in factors]


def make_collapsed_layer(chapter: ModuleType, top_k: int, seed: int) -> torch.nn.Module:
    """Make a layer whose router sends every token to its first top_k experts."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        layer = chapter.MoELayer(D_MODEL, D_FF, EXPERTS, top_k)
        layer.router.weight[:, 0] = 0.0
        layer.router.weight[:top_k, 0] = START
    return layer


def _train_layer(chapter: ModuleType, top_k: int, factor: float, seed: int, steps: int, each_step: Callable[[], None]) -> dict[int, Checkpoint]:
    generator = torch.Generator().manual_seed(seed)
    places = torch.randn(PLACES, D_MODEL, generator=generator)
    maps = torch.randn(PLACES, D_MODEL, D_MODEL, generator=generator) / D_MODEL**0.5

    def draw(batch: int) -> tuple[Tensor, Tensor]:
        """Draw tokens and their targets, (B, T, D) each."""
        place = torch.randint(PLACES, (batch, POSITIONS), generator=generator)
        x = places[place] + 0.5 * torch.randn(batch, POSITIONS, D_MODEL, generator=generator)
        x[..., 0] = 1.0
        return x, (maps[place] @ x[..., None])[..., 0]

    exam, layer = draw(128), make_collapsed_layer(chapter, top_k, seed)
    optimizer = torch.optim.Adam(layer.parameters(), lr=3e-3)
    checkpoints = {}
    for step in range(steps + 1):
        if step in checkpoint_steps(steps):
            checkpoints[step] = _measure_layer(chapter, layer, top_k, *exam)
        x, y = draw(BATCH)
        found, aux_loss = layer(x)
        optimizer.zero_grad()
        ((found - y).square().mean() + factor * aux_loss).backward()
        optimizer.step()
        each_step()
    return checkpoints


@torch.no_grad()
def _measure_layer(chapter: ModuleType, layer: torch.nn.Module, top_k: int, x: Tensor, y: Tensor) -> Checkpoint:
    _, experts = chapter.route(layer.router(x), top_k)
    found, aux_loss = layer(x)
    shares = experts.flatten().bincount(minlength=EXPERTS) / experts.numel()
    return Checkpoint(shares.tolist(), float(aux_loss), float((found - y).square().mean() / y.square().mean()))


def make_rows(runs: list[Run]) -> list[list[str]]:
    """Make a row for each run: the shares of its experts in percent at each checkpoint, and the measures at the last one."""
    found = []
    for run in runs:
        *_, last = run.checkpoints.values()
        shares = [" ".join(f"{100 * share:.0f}" for share in checkpoint.shares) for checkpoint in run.checkpoints.values()]
        found.append([str(run.top_k), f"{run.factor:g}", *shares, f"{last.effective_experts:.1f}", f"{last.loss:.2f}", f"{last.error:.2f}"])
    return found


def make_table(runs: list[Run]) -> Table:
    result_table = Table(title=f"Shares of {EXPERTS} experts in percent, and the final state", box=SIMPLE_HEAD, padding=0, pad_edge=False)  # fits into 80 columns
    for name in ("k", "factor", *(f"step {step}" for step in runs[0].checkpoints), "even", "loss", "error"):
        result_table.add_column(name, justify="right", no_wrap=True)
    for row in make_rows(runs):
        result_table.add_row(*row)
    return result_table


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="headway measure balance", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--steps", type=int, default=STEPS, help=f"steps of training ({STEPS})")
    parser.add_argument("--target", metavar="DIR", default="solutions", help="the chapter to use: a folder with chapter 11, or `solutions` (the reference)")
    asked = parser.parse_args(arguments)
    if asked.steps < 10:
        parser.error(f"--steps {asked.steps}: give at least 10")
    torch.set_num_threads(1)  # these layers are too small for more, and the sums come in one order
    console = Console()
    try:
        package = ChapterPackage(package_sources(resolve(asked.target), load_syllabus().chapter("ch11"), whole=False), "measured")
        chapter = package.module("ch11_moe")
        with Progress(console=console, transient=True) as progress:
            count = len(TOP_KS) * len(FACTORS)
            task = progress.add_task(f"training {count} layers", total=count * (asked.steps + 1))
            runs = measure(chapter, asked.seed, asked.steps, each_step=lambda: progress.advance(task))
    except (NoTarget, ChapterBroken, ModuleNotFoundError) as problem:
        parser.error(str(problem))
    except NotImplementedError:
        parser.error(f"{asked.target}: a part of the MoELayer is not implemented yet")
    console.print(make_table(runs))
    console.print("k: experts per token. factor: weight of the balance loss in training.")
    console.print("even: the number of equally used experts with the same entropy. loss: the balance")
    console.print("loss, 1 for an even load. error: of the task, 1 for an output of zeros.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
