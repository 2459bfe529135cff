"""What the suites of writing and of translating share: weights that make a model say more than one word, and judging a text."""

from __future__ import annotations

import torch
from grader.execution.proxy import load, randomise
from grader.verdict.comparing import same


def fluent(model, seed, scale=1.5):
    """Random weights with plain norms and no biases, so that a greedy text does not say one word for ever."""
    values = randomise(model, seed, scale=scale)
    flat = {name: torch.full_like(value, float(".ln" in f".{name}" and name.endswith("weight"))) for name, value in values.items() if value.dim() < 2}
    load(model, flat)
    return values | flat


def right(answer, what):
    """The text is the one expected. One that is not is asked for again, so that of several calls the learner is shown the one that went wrong."""
    got, expected, _, again = answer
    if not isinstance(got, torch.Tensor) or got.dtype != expected.dtype or not torch.equal(got, expected):
        again()
    same(got, expected, what)
