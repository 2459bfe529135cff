"""Lab growth: what attention keeps of a text and what a recurrent layer keeps, and what one more token costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from time import process_time
from typing import Any

import torch
from grader.chapters.small_models import names_of
from grader.console.output import show_progress
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import Report, result_table
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

CHAPTERS = ("ch10_kv_cache", "ch22_recurrent")
STEPS_A_ROUND = 10  # tokens that are timed together


def report_recurrent_growth(
    chapters: ChapterPackage,
    seed: int,
    *,
    lengths: tuple[int, ...] = (64, 256, 1024, 4096, 16384),
    width: int = 256,
    heads: int = 4,
    rounds: int = 15,
) -> Report:
    """Lesson 22: what a text leaves behind, and what the next token costs, by the length of the text.

    Both layers have the same width and number of heads, and random weights. Each has read a text. CachedSelfAttention
    keeps its keys and values, GatedDeltaNet its state. Then both continue with single tokens. Bytes, and "work", the
    multiplications of matrix products, are counted, and are the same on every machine. "time" is processor time on one
    thread, as a multiple of the recurrent layer's time after the shortest text. Both layers are timed in turns.
    """
    parts = names_of(*map(chapters.module, CHAPTERS))
    torch.manual_seed(seed)
    attention, layer = parts.CachedSelfAttention(width, heads).eval(), parts.GatedDeltaNet(width, heads).eval()
    sizes, work, seconds = [], [], []
    with show_progress("reading and continuing texts", len(lengths)) as step, torch.no_grad():
        for length in lengths:
            cache, state = read_text(parts, attention, layer, length)
            token = torch.randn(1, 1, width)
            sizes.append((count_bytes(cache_tensors(cache)), count_bytes(state)))
            ways = (partial(attention, token, cache), partial(layer.step, token, state))
            for way in ways:
                way()  # the cache makes room now, not while it is timed
            work.append([count_multiplications(way) for way in ways])
            seconds.append(time_in_turns(ways, rounds))
            step()
    names = [f"{length:,}" for length in lengths]
    rows = [[name, f"{a:,}", f"{b:,}", f"{a / b:.1f}x"] for name, (a, b) in zip(names, sizes)]
    title = f"Bytes that are kept, width {width}, heads: {heads}, float32"
    yield result_table(title, ("tokens", "cache", "state", "ratio"), rows)
    unit = seconds[0][1]
    rows = [
        [name, *(f"{count:,}" for count in counts), *(f"{one / unit:.1f}" for one in pair)]
        for name, counts, pair in zip(names, work, seconds)
    ]
    columns = ("tokens", "work, attention", "work, recurrent", "time, attention", "time, recurrent")
    yield result_table("The next token", columns, rows)


def read_text(parts: Any, attention: Any, layer: Any, length: int) -> tuple[Any, tuple[Tensor, Tensor]]:
    """A cache and a state after a random text. The cache is filled directly: attention over all of it takes long."""
    x = torch.randn(1, length, attention.W_k.weight.size(1))
    cache = parts.KVCache()
    cache.append(*(parts.split_heads(W(x), attention.n_heads) for W in (attention.W_k, attention.W_v)))
    return cache, layer.step(x, layer.new_state(1))[1]


def cache_tensors(cache: Any) -> tuple[Tensor, Tensor]:
    """Keys and values of the positions in the cache, without room for more."""
    B, H, _, d_head = cache.k.shape
    none = torch.empty(B, H, 0, d_head)
    return cache.copy().append(none, none)  # type: ignore[no-any-return]


def count_bytes(tensors: tuple[Tensor, ...]) -> int:
    return sum(each.numel() * each.element_size() for each in tensors)


def count_multiplications(way: Callable[[], Any]) -> int:
    """The multiplications of the matrix products, each of which is counted with its addition."""
    with FlopCounterMode(display=False) as counter:
        way()
    return counter.get_total_flops() // 2


def time_in_turns(ways: Sequence[Callable[[], Any]], rounds: int) -> list[float]:
    """The median processor time of a call of each way. The ways take turns, so a busy moment concerns all."""
    times: list[list[float]] = [[] for _ in ways]
    for _ in range(rounds):
        for way, own in zip(ways, times):
            start = process_time()
            for _ in range(STEPS_A_ROUND):
                way()
            own.append((process_time() - start) / STEPS_A_ROUND)
    return [median(own) for own in times]
