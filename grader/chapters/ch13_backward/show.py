"""Gradients by hand: slopes."""

from __future__ import annotations

import torch
from grader.execution.proxy import Implementation
from grader.teaching.show.panel_makers import ALONG_X, POSITION_FEATURE, make_bars, make_chart, make_grid, random_tensor
from grader.teaching.show.panels import Panel
from grader.verdict.comparing import Mismatch


def numeric_gradient(side: Implementation) -> list[Panel]:
    f, x, lines = side.bring(sum_of_cubes), torch.arange(-10, 11, dtype=torch.float64) / 10, {}
    for eps in (1e-5, 0.5):  # rounded, because 1e-10 at x = 0 is 0
        lines[f"eps = {eps:g}"] = side.numeric_gradient(f, x, eps).round(decimals=6)
    return [make_chart("the measured slope of x^3", x.tolist(), lines, "x", "slope")]


def sum_of_cubes(x):
    return (x**3).sum()


def gelu_backward(side: Implementation) -> list[Panel]:
    """In one chart the two curves would hide each other, so the second one shows their difference."""
    ones = torch.ones_like(ALONG_X)
    exact, approximate = side.gelu_backward(ALONG_X, ones), side.gelu_backward(ALONG_X, ones, approximate=True)
    title = "the approximate slope minus the exact one"
    return [
        make_chart("the slope of gelu", ALONG_X.tolist(), {"exact": exact}, "x", "slope"),
        make_chart(title, ALONG_X.tolist(), {"difference": approximate - exact}, "x", "difference"),
    ]


def softmax_backward(side: Implementation) -> list[Panel]:
    weights = torch.tensor([0.4, 0.3, 0.15, 0.1, 0.05]).expand(5, -1).contiguous()
    slopes = side.softmax_backward(weights, torch.eye(5))
    return [
        make_bars("the weights", 5, weights[0], "weight", given=True),
        make_grid("how each weight grows with each score", slopes, 5, 5, ("weight", "score")),
    ]


def attention_backward(side: Implementation) -> list[Panel]:
    """One query's output matters, and a causal mask hides later keys from it."""
    q, k, v, grad_out = random_tensor(3, 6, 4), random_tensor(4, 6, 4), random_tensor(5, 6, 4), torch.zeros(6, 4)
    grad_out[3] = 1.0
    found = side.attention_backward(q, k, v, grad_out, torch.ones(6, 6, dtype=torch.bool).tril())
    if not isinstance(found, tuple | list) or len(found) != 3:
        raise Mismatch("attention_backward should return (grad_q, grad_k, grad_v)", found)
    named = zip(("grad_q", "grad_k", "grad_v"), found)
    return [make_grid(name, part, 6, 4, POSITION_FEATURE, name) for name, part in named]
