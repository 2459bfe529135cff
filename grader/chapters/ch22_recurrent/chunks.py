"""Lab chunks: how the size of a chunk changes the work, the largest tensor and the time of the delta rule."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import median
from time import process_time
from typing import Any

import torch
from grader.chapters.small_models import names_of
from grader.console.output import show_progress
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import Report, result_table
from grader.verdict.memory import StorageWatch
from torch import Tensor

Way = Callable[..., tuple[Tensor, Tensor]]


class WorkWatch(StorageWatch):
    """Also counts the multiplications that solve a triangular system."""

    def look_at(self, func: Any, out: Any, args: Any) -> Any:
        if func._overloadpacket.__name__ == "linalg_solve_triangular":
            self.products += out.numel() * (args[0].size(-1) - 1) // 2
        return super().look_at(func, out, args)


def make_arguments(length: int, width: int, heads: int, seed: int) -> tuple[Tensor, ...]:
    """Queries, unit keys and values, beta, and logarithms of factors near 1."""
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(1, heads, length, width, generator=generator) for _ in range(3))
    beta, decay = (torch.rand(1, heads, length, generator=generator) for _ in range(2))
    return q, torch.nn.functional.normalize(k, dim=-1), v, beta, -0.1 * decay


def ways(parts: Any, chunks: tuple[int, ...]) -> dict[str, Way]:
    """Each takes the arguments of delta_rule."""

    def in_chunks(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_decay: Tensor, *, chunk: int) -> Any:
        return parts.delta_rule_chunked(q, k, v, beta, chunk, log_decay)

    return {"step by step": parts.delta_rule, **{f"chunk {each}": partial(in_chunks, chunk=each) for each in chunks}}


def report_recurrent_chunks(
    chapters: ChapterPackage,
    seed: int,
    *,
    length: int = 1024,
    width: int = 64,
    heads: int = 2,
    chunks: tuple[int, ...] = (1, 4, 16, 64, 256, 1024),
    rounds: int = 3,
) -> Report:
    """Lesson 22: the delta rule over one text, step by step and in chunks of several sizes.

    "operations" are operators of torch, "work" is the number of multiplications, and "largest" is the number of entries
    of the largest new tensor. These are counted in the forward pass, and are the same on every machine. "time" is the
    processor time of a forward pass on one thread, and "training" that of a forward and a backward pass, both as
    multiples of the shortest one in the column.
    """
    parts = names_of(chapters.module("ch22_recurrent"))
    arguments = make_arguments(length, width, heads, seed)
    found = ways(parts, chunks)
    counts, seconds, apart = {}, {}, 0.0
    with show_progress("computing", (2 * rounds + 1) * len(found)) as step:
        expected = parts.delta_rule(*arguments)[0]
        for name, way in found.items():
            with torch.no_grad(), WorkWatch(arguments) as seen:
                output = way(*arguments)[0]
            apart = max(apart, (output - expected).abs().max().item())
            counts[name] = [f"{number:,}" for number in (seen.operators, seen.products, seen.largest)]
            step()
        for training in (False, True):
            seconds[training] = time_ways(found, arguments, training, rounds, step)
    shortest = [min(times.values()) for times in seconds.values()]
    rows = [
        [name, *counts[name], *(f"{times[name] / least:.1f}" for times, least in zip(seconds.values(), shortest))]
        for name in found
    ]
    columns = ("", "operations", "work", "largest", "time", "training")
    yield result_table(f"{length:,} positions, width {width}, heads: {heads}, float32", columns, rows)
    largest = expected.abs().max().item()
    yield f"Largest difference from step by step: {apart:.0e}, where the largest output is {largest:.0f}."


def time_ways(
    found: dict[str, Way], arguments: tuple[Tensor, ...], training: bool, rounds: int, step: Callable[[], None]
) -> dict[str, float]:
    """The median processor time of each way; they take turns."""
    times: dict[str, list[float]] = {name: [] for name in found}
    for _ in range(rounds):
        for name, way in found.items():
            leaves = [each.clone().requires_grad_(training) for each in arguments]
            start = process_time()
            output, _ = way(*leaves)
            if training:
                output.sum().backward()
            times[name].append(process_time() - start)
            step()
    return {name: median(own) for name, own in times.items()}
