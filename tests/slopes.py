"""Gradients that have to be there, and have to be right."""

from __future__ import annotations

from grader.verdict.comparing import close, holds


def same_gradient(got, expected, what, tol=None):
    """Of one input."""
    holds(got is not None, f"no gradient reaches {what}: somewhere the result is cut off from it")
    close(got, expected, f"the gradient of {what}", tol)


def every_parameter_learns(got, expected, tol, when=""):
    """Of all parameters, by name. A key's bias is left out: softmax ignores it, so its gradient is rounding and nothing else."""
    for name, gradient in expected.items():
        if name.endswith("W_k.bias"):
            continue
        holds(got.get(name) is not None, f"no gradient reaches {name}: it will never learn")
        close(got[name], gradient, f"the gradient of {name}{when}", tol=tol)
