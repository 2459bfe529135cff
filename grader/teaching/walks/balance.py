"""Whether the load of experts spreads out, with and without the balance loss (lesson 11)."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType, SimpleNamespace

import torch
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import Report, result_table
from grader.teaching.walks.progress_line import show_progress
from torch import Tensor

FEW_EXPERTS, D_MODEL, PLACES, POSITIONS = 4, 16, 8, 16
START = 4.0  # the router's first score for the experts that all tokens choose


def train_collapsed_layer(
    chapter: ModuleType, top_k: int, factor: float, seed: int, steps: int, step_done: Callable[[], None] = lambda: None
) -> dict[int, SimpleNamespace]:
    """Train a layer that starts collapsed; return its state after 0, a tenth, three tenths and all of the steps.

    It is measured on tokens that were not in training: each expert's share of all choices, the balance loss, and the
    mean squared error as a share of the targets' own mean square.
    """
    generator = torch.Generator().manual_seed(seed)
    places = torch.randn(PLACES, D_MODEL, generator=generator)
    maps = torch.randn(PLACES, D_MODEL, D_MODEL, generator=generator) / D_MODEL**0.5

    def draw_tokens(batch: int) -> tuple[Tensor, Tensor]:
        """Draw tokens and their targets, (B, T, D) each."""
        place = torch.randint(PLACES, (batch, POSITIONS), generator=generator)
        x = places[place] + 0.5 * torch.randn(batch, POSITIONS, D_MODEL, generator=generator)
        x[..., 0] = 1.0
        return x, (maps[place] @ x[..., None])[..., 0]

    exam, wanted = draw_tokens(128)
    torch.manual_seed(seed)
    layer = chapter.MoELayer(D_MODEL, 8, FEW_EXPERTS, top_k)
    layer.router.weight.data[:, 0] = 0.0  # every token is sent to the first top_k experts
    layer.router.weight.data[:top_k, 0] = START
    optimizer = torch.optim.Adam(layer.parameters(), lr=3e-3)
    checkpoints = {}
    for step in range(steps + 1):
        if step in (0, steps // 10, steps * 3 // 10, steps):
            with torch.no_grad():
                chosen, (found, balance) = chapter.route(layer.router(exam), top_k)[1], layer(exam)
            shares = chosen.flatten().bincount(minlength=FEW_EXPERTS) / chosen.numel()
            error = (found - wanted).square().mean() / wanted.square().mean()
            checkpoints[step] = SimpleNamespace(shares=shares.tolist(), loss=float(balance), error=float(error))
        x, y = draw_tokens(8)
        found, balance = layer(x)
        optimizer.zero_grad()
        ((found - y).square().mean() + factor * balance).backward()
        optimizer.step()
        step_done()
    return checkpoints


def report_balance(chapters: ChapterPackage, seed: int = 2, *, steps: int = 1000) -> Report:
    """Lesson 11: if all tokens start at the same experts, does the load spread out, with and without the balance loss?

    The task has parts that experts can share: each token comes from one of eight places, and each place has its own
    linear map to learn, too many for one narrow expert. Every token's first feature is 1. From this feature the router
    starts with a score of 4 for its first top_k experts; all other scores are small and random. So all tokens choose
    the same experts. Every run has the same tokens and the same initial weights, and trains all parameters with Adam on
    the error plus `factor` times the balance loss. The default seed is typical of seeds 0 to 3, which differ in how
    soon a third expert is used without the loss.
    """
    chapter = chapters.module("ch11_moe")
    rows, found = [], {}
    with show_progress("training 6 layers", 6 * (steps + 1)) as step:
        for top_k in (1, 2):
            for factor in (0.0, 0.01, 0.1):
                found = train_collapsed_layer(chapter, top_k, factor, seed, steps, step)
                *_, last = found.values()
                shares = [" ".join(f"{100 * share:.0f}" for share in one.shares) for one in found.values()]
                even = math.exp(-sum(share * math.log(share) for share in last.shares if share > 0))
                rows.append([top_k, f"{factor:g}", *shares, f"{even:.1f}", last.loss, last.error])
    columns = ("k", "factor", *(f"step {step}" for step in found), "even", "loss", "error")
    title = f"Shares of {FEW_EXPERTS} experts in percent, and the final state"
    yield result_table(title, columns, rows, ".2f", padding=0)
    yield "k: experts per token. factor: weight of the balance loss in training."
    yield "even: the number of equally used experts with the same entropy. loss: the balance"
    yield "loss, 1 for an even load. error: of the task, 1 for an output of zeros."
