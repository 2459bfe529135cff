"""Lab capacity: how many pairs of keys and values a state returns, if they are added up, and by the delta rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from grader.chapters.small_models import names_of
from grader.console.output import show_progress
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import Report, result_table
from torch import Tensor

Way = Callable[[Tensor, Tensor], Tensor]  # keys (B, H, T, d), values (B, H, T, d_v) -> a state (B, H, d, d_v)
CHUNK = 64
PAIRS_BY_WIDTH = (0.125, 0.25, 0.5, 1.0, 1.5, 2.0, 4.0)
TIMES = (1, 2, 4, 8)  # that each key occurs
AGE_PAIRS_BY_WIDTH = 2.0  # of the table by age


def ways(parts: Any) -> dict[str, Way]:
    """How a state is made of pairs. "best" is the matrix with the least squared error over all of them."""

    def added(k: Tensor, v: Tensor) -> Tensor:
        nothing = k.new_zeros(k.shape[:3])
        return parts.decayed_attention_chunked(k, k, v, nothing, CHUNK)[1]  # type: ignore[no-any-return]

    def corrected(k: Tensor, v: Tensor) -> Tensor:
        return parts.delta_rule_chunked(k, k, v, k.new_ones(k.shape[:3]), CHUNK)[1]  # type: ignore[no-any-return]

    def best(k: Tensor, v: Tensor) -> Tensor:
        return torch.linalg.pinv(k) @ v

    return {"sum": added, "delta rule": corrected, "best": best}


def draw_pairs(count: int, width: int, draws: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Unit keys and values (1, draws, count, width), all in random directions."""
    keys, values = (torch.randn(1, draws, count, width, generator=generator) for _ in range(2))
    return torch.nn.functional.normalize(keys, dim=-1), values


def errors_of(state: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """The squared error of each pair, divided by the mean squared length of a value: (draws, pairs)."""
    missing = (keys @ state - values).square().sum(-1)
    return (missing / values.square().sum(-1).mean())[0]


def is_right(state: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Whether what is returned for a key is nearer to its own value than to all others: (draws, pairs)."""
    nearest = torch.cdist(keys @ state, values).argmin(-1)
    return (nearest == torch.arange(values.size(2)))[0]


def score(way: Way, keys: Tensor, values: Tensor, asked: slice = slice(None)) -> str:
    """The mean error of the asked pairs, and the share of right ones."""
    state = way(keys, values)
    error, right = (each(state, keys, values)[:, asked] for each in (errors_of, is_right))
    return f"{error.mean():.2f}, {right.float().mean():.0%}"


def report_recurrent_capacity(chapters: ChapterPackage, seed: int, *, width: int = 64, draws: int = 40) -> Report:
    """Lesson 22: how well a state returns the values of random keys, by the number of pairs it has read.

    The first number in a cell is the squared error, where 1 is as wrong as returning nothing. The second is the share
    of keys whose answer is nearer to their own value than to every other one. Keys have the length 1, and beta is 1. In
    the second table the pairs are asked by their age. In the third one a quarter of `--width` keys occur several times,
    each time with a new value, and the last value of each key is asked.
    """
    parts = names_of(chapters.module("ch22_recurrent"))
    found, generator = ways(parts), torch.Generator().manual_seed(seed)
    by_count, by_age, by_times = [], [], []
    with show_progress("filling states", len(PAIRS_BY_WIDTH) + 1 + len(TIMES)) as step:
        for share in PAIRS_BY_WIDTH:
            count = round(share * width)
            pairs = draw_pairs(count, width, draws, generator)
            by_count.append([f"{count:,}", f"{share:g}", *(score(way, *pairs) for way in found.values())])
            step()
        pairs = draw_pairs(round(AGE_PAIRS_BY_WIDTH * width), width, draws, generator)
        quarter = pairs[0].size(2) // 4
        for place, age in enumerate(("the oldest quarter", "the second", "the third", "the newest quarter")):
            asked = slice(place * quarter, (place + 1) * quarter)
            by_age.append([age, *(score(way, *pairs, asked) for way in found.values())])
        step()
        for times in TIMES:
            keys, _ = draw_pairs(width // 4, width, draws, generator)
            keys = keys.repeat(1, 1, times, 1)
            values = torch.randn(keys.shape, generator=generator)
            last = slice(keys.size(2) - width // 4, None)
            by_times.append([f"{times}", *(score(way, keys, values, last) for way in found.values())])
            step()
    yield result_table(f"Keys of width {width}, each once", ("pairs", "by width", *found), by_count)
    yield result_table(f"{4 * quarter} pairs, by their age", ("asked", *found), by_age)
    yield result_table(f"{width // 4} keys, each several times", ("times", *found), by_times)
