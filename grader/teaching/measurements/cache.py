"""Lesson 10: tokens per second with and without the KV cache, with the multiply-adds and the memory.

A GPT with random weights continues a prompt greedily, once with `generate` and once with `generate_cached`; each call of the model is
timed. The speed does not depend on the values of the weights.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import median
from time import perf_counter
from types import ModuleType
from typing import Any

import torch
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.errors import ChapterBroken
from grader.execution.target import NoTarget, package_sources, resolve
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from torch import Tensor

TOKENS = (16, 64, 256, 1024)
PROMPT, WIDTH, HEADS, LAYERS, VOCABULARY = 512, 256, 4, 2, 256
RUNS = 3
SHORT = 256  # texts up to this length are written RUNS times without a cache too, longer ones once


@dataclass(frozen=True)
class Row:
    """The cost of this many new tokens after the prompt: median seconds, and the multiply-adds of all matrix products."""

    tokens: int
    seconds: float
    seconds_cached: float
    work: int
    work_cached: int
    bytes: int

    @property
    def faster(self) -> float:
        return self.seconds / self.seconds_cached


def multiply_adds(config: Any, new: int, seen: int) -> int:
    """Count the multiply-adds of one call of a GPT with d_ff = 4 d_model: `new` positions, each compared with `seen` keys."""
    D = config.d_model
    maps = new * 12 * D * D  # four of D x D in attention, two of D x 4 D in the feed-forward layer
    attention = 3 * new * seen * D  # scores, and the weighted sum of the values twice: a second time after dropout, which acts on the weights
    return config.n_layers * (maps + attention) + new * D * config.vocab_size


def count_work(config: Any, prompt: int, tokens: int) -> tuple[int, int]:
    """Count the multiply-adds of generating so many tokens: without a cache, and with one."""
    without = sum(multiply_adds(config, length, length) for length in range(prompt, prompt + tokens))
    steps = (multiply_adds(config, 1, length) for length in range(prompt + 1, prompt + tokens))
    return without, multiply_adds(config, prompt, prompt) + sum(steps)


Generate = Callable[..., Tensor]
OnTokens = Callable[[int], object]


def ignore_tokens(_: int) -> None:
    """Ignore the number of new tokens."""


def time_each_token(generate: Generate, model: torch.nn.Module, ids: Tensor, tokens: int, on_tokens: OnTokens = ignore_tokens) -> tuple[list[float], Tensor]:
    """Return the seconds from the start to the model's answer for each new token, and the text. The model is called once per token."""
    stamps: list[float] = []

    def note(*_: object) -> None:
        stamps.append(perf_counter())
        on_tokens(1)

    hook = model.register_forward_hook(note)
    try:
        start = perf_counter()
        text = generate(model, ids, tokens, temperature=0.0)
    finally:
        hook.remove()
    return [stamp - start for stamp in stamps[-tokens:]], text


def time_text(generate: Generate, model: torch.nn.Module, ids: Tensor, tokens: int, on_tokens: OnTokens = ignore_tokens) -> tuple[float, Tensor]:
    """Return the seconds for a whole text, and the text."""
    start = perf_counter()
    text = generate(model, ids, tokens, temperature=0.0)
    taken = perf_counter() - start
    on_tokens(tokens)
    return taken, text


def measure(
    chapter: ModuleType, generate: Generate, config: Any, prompt: int, tokens: tuple[int, ...], runs: int, on_tokens: OnTokens = ignore_tokens
) -> tuple[list[Row], bool]:
    """Return a row for each number of tokens, and whether both ways wrote the same text."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = chapter.CachedGPT(config).eval()
        ids = torch.randint(config.vocab_size, (1, prompt))
    for way in (generate, chapter.generate_cached):
        time_text(way, model, ids, 2)  # the first calls allocate memory
    plain: list[list[float]] = []
    cached: dict[int, list[float]] = {n: [] for n in tokens}
    same = True
    for length in run_lengths(tokens, runs):
        times, text = time_each_token(generate, model, ids, length, on_tokens)
        plain.append(times)
        for n in tokens:
            taken, written = time_text(chapter.generate_cached, model, ids, n, on_tokens)
            cached[n].append(taken)
        same = same and torch.equal(text, written[:, : text.size(1)])
    rows = []
    for n in tokens:
        medians = median(times[n - 1] for times in plain if len(times) >= n), median(cached[n])
        kept = chapter.kv_cache_bytes(config.n_layers, config.n_heads, config.d_model // config.n_heads, prompt + n, bytes_per_value=4)
        rows.append(Row(n, *medians, *count_work(config, prompt, n), kept))
    return rows, same


def run_lengths(tokens: tuple[int, ...], runs: int) -> list[int]:
    """Return how many tokens each run without a cache generates; a longer run also gives the times of all shorter texts."""
    short = [n for n in tokens if n <= SHORT] or [min(tokens)]
    return [max(tokens)] + [max(short)] * (runs - 1)


def format_count(count: float) -> str:
    """Write a count with two digits and a unit: 1.3G."""
    power = min(4, max(0, int(math.log10(max(count, 1))) // 3))
    value = count / 1000**power
    return f"{value:.0f}{' kMGT'[power].strip()}" if value >= 9.95 else f"{value:.1f}{' kMGT'[power].strip()}"


def make_table(rows: list[Row], title: str) -> Table:
    shown = Table(title=title)
    for name in ("new tokens", "tokens/s", "cached", "faster", "work", "cached", "less", "memory"):
        shown.add_column(name, justify="right")
    for row in rows:
        speeds = [format_count(row.tokens / seconds) for seconds in (row.seconds, row.seconds_cached)]
        saved = f"{row.work / row.work_cached:.0f}x"
        shown.add_row(f"{row.tokens}", *speeds, f"{row.faster:.0f}x", format_count(row.work), format_count(row.work_cached), saved, f"{row.bytes / 2**20:.1f} MiB")
    return shown


@contextmanager
def use_threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="headway measure cache", description=__doc__.splitlines()[0])
    parser.add_argument("--prompt", type=int, default=PROMPT, help=f"tokens of the prompt ({PROMPT})")
    parser.add_argument("--tokens", type=int, nargs="+", default=list(TOKENS), help=f"numbers of tokens to generate ({' '.join(map(str, TOKENS))})")
    parser.add_argument("--width", type=int, default=WIDTH, help=f"d_model ({WIDTH})")
    parser.add_argument("--layers", type=int, default=LAYERS, help=f"number of blocks ({LAYERS})")
    parser.add_argument("--runs", type=int, default=RUNS, help=f"runs of each text; the table has the median ({RUNS})")
    parser.add_argument("--target", metavar="DIR", default="solutions", help="the chapters to use: a folder with chapters 1 to 10, or `solutions` (the reference)")
    return parser


def main(arguments: list[str] | None = None) -> int:
    parser = make_parser()
    asked = parser.parse_args(arguments)
    tokens, console, several = tuple(sorted(asked.tokens)), Console(), torch.get_num_threads()
    try:
        package = ChapterPackage(package_sources(resolve(asked.target), load_syllabus().chapter("ch10"), whole=True), "measured")
        chapter, sampling, models = (package.module(name) for name in ("ch10_kv_cache", "ch09_sampling", "ch07_models"))
        config = models.GPTConfig(VOCABULARY, asked.prompt + max(tokens), d_model=asked.width, n_heads=HEADS, n_layers=asked.layers)
        counts = (1, several) if several > 1 else (1,)
        all_tokens = sum(length + sum(tokens) for length in run_lengths(tokens, asked.runs))
        for number in counts:
            with use_threads(number), Progress(console=console, transient=True) as progress:
                task = progress.add_task("writing", total=all_tokens)
                on_tokens = partial(progress.advance, task)
                rows, same = measure(chapter, sampling.generate, config, asked.prompt, tokens, asked.runs, on_tokens)
            console.print(make_table(rows, "one thread" if number == 1 else f"{number} threads"))
            if not same:
                console.print("The two texts differ, but they should not: generate_cached must write what generate writes.", style="red")
    except (NoTarget, ChapterBroken, ModuleNotFoundError) as problem:
        parser.error(str(problem))
    except NotImplementedError:
        parser.error(f"{asked.target}: a part of the CachedGPT is not implemented yet")
    blocks = format_count(12 * asked.layers * asked.width**2)
    console.print(f"{asked.layers} layers of width {asked.width} ({blocks} weights in blocks); one row, a prompt of {asked.prompt} tokens, float32.")
    console.print("work: multiply-adds of all matrix products. memory: of the caches at the end.")
    console.print(f"Median of {asked.runs} runs; without a cache, texts of more than {SHORT} tokens are generated once.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
