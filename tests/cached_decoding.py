"""Sizes for caches, a text in chunks, whether chunk by chunk gives the result of one pass, and how much work it takes."""

from __future__ import annotations

import math
from types import SimpleNamespace

import torch
from grader.verdict.comparing import close, holds, sizes
from grader.verdict.memory import StorageWatch


def draw_cache_sizes(**more):
    """Different sizes, and a seed. Each test has one example: a mistake here shows at every size, and another seed draws other sizes."""
    B, H = (2 + int(i) for i in torch.randperm(3)[:2])
    n = SimpleNamespace(B=B, H=H, d_head=6, D=6 * H)
    sizes(B=B, H=H, d_head=6, **more)
    return n, int(torch.randint(10000, ()))


def shuffled(*lengths):
    """These lengths of chunks in any order."""
    return [lengths[i] for i in torch.randperm(len(lengths))]


def outputs_by_chunk(mine, cache, x, lengths):
    """The outputs for `x`, chunk by chunk."""
    return [mine(part, cache) for part in x.split(lengths, dim=1)]


def compare_chunks(outputs, expected, lengths, what, how, tol):
    """Each chunk separately, so that the failure shows the first wrong one."""
    done = 0
    for got, should, T in zip(outputs, expected.split(lengths, dim=1), lengths):
        where = f"positions {done} to {done + T - 1}" if T > 1 else f"position {done}"
        close(got, should, f"{what} for {where}, {how},", tol=tol)
        done += T


def relative_work(learner, model, new_cache, x) -> float:
    """How many times the multiplications of one pass over `x` it takes to read it one position at a time, rounded; infinite if it leaves torch."""
    T = x.size(1)
    watch, count = learner.bring(StorageWatch), learner.bring(multiplications)
    at_once, one_by_one = count(watch, model, new_cache, x, [T]), count(watch, model, new_cache, x, T * [1])
    return round(one_by_one / at_once) if 0 < at_once < math.inf else math.inf


def multiplications(watch, model, new_cache, x, lengths):
    """How many multiplications it takes to read `x` in chunks of these lengths."""
    cache = new_cache()
    with torch.no_grad(), watch(model=model) as seen:
        for part in x.split(lengths, dim=1):
            model(part, cache)
    return math.inf if seen.left_torch() else seen.products


def check_work(work: float, what: str, once: str) -> None:
    """Refuse work of more than one pass over the whole text."""
    holds(work < math.inf, "the numbers are taken out of torch, with numpy(), tolist() or item(); this test counts torch's multiplications, so compute with them")
    holds(work <= 1, f"{what} about {work} times the multiplications of one pass; {once}")
