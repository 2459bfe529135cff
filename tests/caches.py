"""What the suites of caches share: sizes, a text cut into chunks, and whether chunk by chunk gives what one pass gives."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from grader.verdict.comparing import close, sizes


def drawn(**more):
    """Sizes, no two alike, and a seed. One example a test: what is broken here is broken at every size, and a run with another seed draws others."""
    B, H = (2 + int(i) for i in torch.randperm(3)[:2])
    n = SimpleNamespace(B=B, H=H, d_head=6, D=6 * H)
    sizes(B=B, H=H, d_head=6, **more)
    return n, int(torch.randint(10000, ()))


def shuffled(*lengths):
    """These lengths of chunks in any order."""
    return [lengths[i] for i in torch.randperm(len(lengths))]


def read(mine, cache, x, lengths):
    """The outputs for `x`, chunk by chunk."""
    return [mine(part, cache) for part in x.split(lengths, dim=1)]


def chunk_by_chunk(outputs, expected, lengths, what, how, tol):
    """Each chunk by itself, so that the first wrong one is the one shown."""
    done = 0
    for got, should, T in zip(outputs, expected.split(lengths, dim=1), lengths):
        where = f"positions {done} to {done + T - 1}" if T > 1 else f"position {done}"
        close(got, should, f"{what} for {where}, {how},", tol=tol)
        done += T
