"""Is a result of its input's dtype, and right there? Not compared number by number, for in half precision every way to write it rounds in its own way."""

from __future__ import annotations

import torch
from grader.verdict.comparing import close, holds


def in_this_dtype(module, x, expected, tol):
    """The dtype of module(x), and whether its values are right; brought to the far side."""
    result = module(x)
    if not isinstance(result, torch.Tensor) or result.shape != expected.shape:
        return {"instead": result}
    off = (result.double() - expected.double()).abs().max()
    return [str(result.dtype).removeprefix("torch."), bool(off <= tol * expected.double().abs().max())]


def right_in(found, expected, what):
    """What `in_this_dtype` found of `what` is as it should be."""
    if isinstance(found, dict):
        close(found["instead"], expected, what)
    dtype, right = found
    wanted = str(expected.dtype).removeprefix("torch.")
    holds(right, f"{what} is off by more than rounding")
    holds(dtype == wanted, f"{what} is {dtype}; it should be {wanted}")
