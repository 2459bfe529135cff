"""A module on each side with the same random parameters, and whether two sides hold the same tensors by name."""

from __future__ import annotations

from grader.execution.proxy import load, randomise
from grader.verdict.comparing import close, same


def pair(learner, reference, kind, *args, seed=0, **options):
    """The learner's module and the reference's with the same random parameters, and those."""
    model = getattr(reference, kind)(*args, **options)
    values = randomise(model, seed)
    mine = getattr(learner, kind)(*args, **options)
    load(mine, values)
    return mine, model, values


def exactly(got, expected, what):
    """The same names and, to the last bit, the same numbers."""
    same(sorted(got), sorted(expected), f"the names of {what}")
    for name, value in expected.items():
        close(got[name], value, f"in {what}, {name}", tol=0.0)
