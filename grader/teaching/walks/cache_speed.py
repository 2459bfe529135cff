"""How much faster a text is written with the KV cache (lesson 10)."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import median
from time import perf_counter
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import Report, result_table
from grader.teaching.walks.progress_line import ProgressReporter, show_progress
from torch import Tensor

DEFAULT_THREADS = torch.get_num_threads()  # before a measurement sets it to 1
LONG_TEXT = 256  # texts up to this length are written several times without a cache too, longer ones once


def multiply_adds(config: Any, new: int, seen: int) -> int:
    """Count the multiply-adds of one call of a GPT with d_ff = 4 d_model: `new` positions, each with `seen` keys."""
    D = config.d_model
    maps = new * 12 * D * D  # four of D x D in attention, two of D x 4 D in the feed-forward layer
    attention = 3 * new * seen * D  # scores; the weighted sum of the values twice: also after dropout on the weights
    return config.n_layers * (maps + attention) + new * D * config.vocab_size


def count_work(config: Any, prompt: int, tokens: int) -> tuple[int, int]:
    """Count the multiply-adds of generating so many tokens: without a cache, and with one."""
    without = sum(multiply_adds(config, length, length) for length in range(prompt, prompt + tokens))
    steps = (multiply_adds(config, 1, length) for length in range(prompt + 1, prompt + tokens))
    return without, multiply_adds(config, prompt, prompt) + sum(steps)


def time_both(
    chapter: ModuleType,
    generate: Callable[..., Tensor],
    config: Any,
    prompt: int,
    tokens: tuple[int, ...],
    runs: int,
    report_progress: ProgressReporter,
) -> tuple[list[SimpleNamespace], bool]:
    """Return the cost of each number of tokens after the prompt, and whether both ways wrote the same text.

    `speeds` are tokens in a median second, `work` is the multiply-adds of all matrix products, both without a cache and
    with one; `faster` and `fewer` are their quotients.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = chapter.CachedGPT(config).eval()
        ids = torch.randint(config.vocab_size, (1, prompt))
    ways = (generate, chapter.generate_cached)
    for way in ways:
        way(model, ids, 2, temperature=0.0)  # the first calls allocate memory
    rows, same, d_head = [], True, config.d_model // config.n_heads
    with report_progress("writing with a cache and without", sum(tokens)) as step:
        for n in tokens:
            seconds, texts = [], []
            for way in ways:
                count = 1 if way is generate and n > LONG_TEXT else runs
                times = []
                for _ in range(count):
                    start = perf_counter()
                    text = way(model, ids, n, temperature=0.0)
                    times.append(perf_counter() - start)
                seconds.append(median(times))
                texts.append(text)
            same = same and torch.equal(*texts)
            size = chapter.kv_cache_bytes(config.n_layers, config.n_heads, d_head, prompt + n, bytes_per_value=4)
            row = SimpleNamespace(tokens=n, speeds=(n / seconds[0], n / seconds[1]), bytes=size)
            row.work = count_work(config, prompt, n)
            row.faster, row.fewer = seconds[0] / seconds[1], row.work[0] / row.work[1]
            rows.append(row)
            for _ in range(n):
                step()
    return rows, same


def format_count(count: float) -> str:
    """Write a count with two digits and a unit: 1.3G."""
    power = min(4, max(0, int(math.log10(max(count, 1))) // 3))
    value, unit = count / 1000**power, " kMGT"[power].strip()
    return f"{value:.0f}{unit}" if value >= 9.95 else f"{value:.1f}{unit}"


def report_cache(
    chapters: ChapterPackage, *, prompt: int = 512, tokens: tuple[int, ...] = (16, 64, 256, 1024), runs: int = 3
) -> Report:
    """Lesson 10: tokens per second with and without the KV cache, with the multiply-adds and the memory.

    A GPT with random weights continues a prompt greedily, once with `generate` and once with `generate_cached`; each
    call of the model is timed. The speed does not depend on the values of the weights.
    """
    models, sampling, caching = (chapters.module(name) for name in ("ch07_models", "ch09_sampling", "ch10_kv_cache"))
    tokens, width, layers = tuple(sorted(tokens)), 256, 2
    config = models.GPTConfig(256, prompt + max(tokens), d_model=width, n_heads=4, n_layers=layers)
    columns = ("new tokens", "tokens/s", "cached", "faster", "work", "cached", "less", "memory")
    for threads in sorted({1, DEFAULT_THREADS}):
        torch.set_num_threads(threads)
        found, same = time_both(caching, sampling.generate, config, prompt, tokens, runs, show_progress)
        rows = []
        for row in found:
            speeds, work = (map(format_count, pair) for pair in (row.speeds, row.work))
            quotients = f"{row.faster:.0f}x", f"{row.fewer:.0f}x"
            rows.append([row.tokens, *speeds, quotients[0], *work, quotients[1], f"{row.bytes / 2**20:.1f} MiB"])
        yield result_table("one thread" if threads == 1 else f"{threads} threads", columns, rows)
        if not same:
            yield "The two texts differ, but they should not: generate_cached must write what generate writes."
    blocks = format_count(12 * layers * width**2)
    yield (
        f"{layers} layers of width {width} ({blocks} weights in blocks); one row, a prompt of {prompt} tokens, float32."
    )
    yield "work: multiply-adds of all matrix products. memory: of the caches at the end."
    yield f"Median of {runs} runs; without a cache, texts of more than {LONG_TEXT} tokens are generated once."
