"""Calls without gradient, calls whose result is used later, and results of several types converted to one type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from grader.execution.errors import LearnerError


def as_list(ids: Any) -> Any:
    """Ids as a list, if they are a tuple or a tensor; anything else unchanged."""
    if isinstance(ids, tuple) or hasattr(ids, "tolist"):
        return list(ids) if isinstance(ids, tuple) else ids.tolist()
    return ids


def recorded_call(call: Callable[[], Any]) -> Callable[[], Any]:
    """Make the call now; return a function that returns the same value, or raises the same error, each time."""
    try:
        value = call()
    except LearnerError as problem:
        error = problem
    else:
        return lambda: value

    def again() -> Any:
        raise error

    return again


GRADIENT_FREE_MODES = ("inference_mode", "no_grad")  # what was made in inference mode cannot be used for training: that comes first


def call_in_mode(f, mode, *args, **options):
    """What `f` gives in this mode of autograd."""
    with getattr(torch, mode)():
        return f(*args, **options)


def call_without_gradient(learner, f, *args, **options):
    """What `f` gives in each mode without gradient."""
    quiet = learner.bring(call_in_mode)
    return {mode: quiet(f, mode, *args, **options) for mode in GRADIENT_FREE_MODES}


def gradient_of_one(f, which, tensors, *others):
    """The gradient of one of these tensors through the sum of the squares of what `f` gives, where the other tensors need none."""
    leaves = [x.clone().requires_grad_(i == which) for i, x in enumerate(tensors)]
    f(*leaves, *others).square().sum().backward()
    return leaves[which].grad
