"""Ranks in tests. Their code runs behind the boundary; what they send goes through this side, which counts it and can change it on its way.

A helper of a test returns `Ranks` of grader.execution.simulated_group, and `run_on_ranks` runs them to their end.
"""

from __future__ import annotations

from types import SimpleNamespace

from grader.execution.errors import RuleBroken
from grader.execution.simulated_group import GroupProblem, run_group
from grader.verdict.comparing import close, same, sizes
from strategies import tensor

MOST_TURNS = 2000  # of all ranks: code that makes calls for ever never ends


def ranks_of(n: int) -> int:
    sizes(ranks=n)
    return n


def run_on_ranks(ranks, n, change=None):
    """Each rank's result, and what it did: the names of its `calls`, the `bytes` that it sent, the tensors `sent` and `received`, and to whom it sent (`sent_to`)."""
    advance, turns = ranks.advance, 0

    def counted(*arguments):
        nonlocal turns
        turns += 1
        if turns > MOST_TURNS:
            raise RuleBroken("GroupProblem", f"the ranks make calls without end: after {MOST_TURNS} of them they have not returned")
        return advance(*arguments)

    try:
        results, counts = run_group(counted, n, change)
    except GroupProblem as problem:
        raise RuleBroken("GroupProblem", str(problem)) from None
    return SimpleNamespace(
        results=results, calls=[c.calls for c in counts], bytes=[c.bytes for c in counts], sent_to=[c.sent_to for c in counts],
        sent=[c.sent for c in counts], received=[c.received for c in counts],
    )  # fmt: skip


def factors(seed):
    """A change for `run_on_ranks`: what a rank sends arrives multiplied by a number, another one for each of its calls."""

    def change(rank, number, t):
        return t * (0.5 + tensor(seed + 1000 * rank + number, 1, dtype=t.dtype).abs().item())

    return change


def check_sent(run, expected, tol=1e-4):
    """Compare what each rank has given to its calls, whatever its shape; a single rank sends nothing to others."""
    for rank, right in enumerate(expected if len(expected) > 1 else ()):
        same(len(run.sent[rank]), len(right), f"the number of tensors that rank {rank} gives to its calls")
        for i, (mine, theirs) in enumerate(zip(run.sent[rank], right)):
            close(mine.flatten(), theirs.flatten(), f"tensor {i + 1} that rank {rank} gives to its calls", tol=tol)
