"""Sizes for caches, a text in chunks, whether chunk by chunk gives the result of one pass, and how much work it takes."""

from __future__ import annotations

import math
from types import SimpleNamespace

import torch
from grader.verdict.comparing import close, sizes


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


def relative_work(learner, model, new_cache, x) -> int:
    """How many times the multiplications of one pass over `x` it takes to read it one position at a time, rounded; 0 where none can be counted."""
    T = x.size(1)
    count = learner.bring(multiplications)
    at_once, one_by_one = count(model, new_cache, x, [T]), count(model, new_cache, x, T * [1])
    return round(one_by_one / at_once) if at_once else 0


def multiplications(model, new_cache, x, lengths):
    """How many products of matrix entries it takes to read `x` in chunks of these lengths."""
    from torch.overrides import TorchFunctionMode

    class Counting(TorchFunctionMode):
        total = 0

        def __torch_function__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            name = getattr(func, "__name__", "").strip("_")
            if name in ("linear", "matmul", "rmatmul", "mm", "bmm"):
                self.total += out.numel() * args[0].size(-2 if name == "rmatmul" else -1)
            elif name in ("addmm", "baddbmm"):
                self.total += out.numel() * args[1].size(-1)
            elif name == "einsum" and "->" in str(args[0]):
                inside, outside = args[0].replace(" ", "").split("->")
                operands = args[1] if isinstance(args[1], list | tuple) else args[1:]
                size = {}
                for term, operand in zip(inside.split(","), operands):
                    size |= dict(zip(reversed(term.replace("...", "")), reversed(operand.shape)))
                self.total += out.numel() * math.prod(size[letter] for letter in size if letter not in outside)
            return out

    cache = new_cache()
    with torch.no_grad(), Counting() as counting:
        for part in x.split(lengths, dim=1):
            model(part, cache)
    return counting.total
