"""A module on each side with the same parameters, and comparing their parameters and gradients."""

from __future__ import annotations

import torch
from grader.execution.proxy import load, randomise
from grader.verdict.comparing import close, holds, same
from pytest_check import check


def module_pair(learner, reference, kind, *args, seed=0, **options):
    """The learner's module and the reference's with the same random parameters, and those."""
    model = getattr(reference, kind)(*args, **options)
    values = randomise(model, seed)
    mine = getattr(learner, kind)(*args, **options)
    load(mine, values)
    return mine, model, values


def compare_exactly(got, expected, what):
    """The same names and, to the last bit, the same numbers."""
    same(sorted(got), sorted(expected), f"the names of {what}")
    for name, value in expected.items():
        with check:
            close(got[name], value, f"in {what}, {name}", tol=0.0)


def set_parameters(learner, model, values, kind, names="the names of the docstring"):
    """Both sides' models get the same numbers, however they tie their matrices; a missing parameter is reported to the learner."""
    problem = learner.bring(fill_parameters)(model, values, kind, names)
    holds(problem is None, problem)


def fill_parameters(model, values, kind, names):
    """Copy values into the parameters of these names (for a shared one either name works); the other parameters always get the same numbers."""
    own = dict(model.named_parameters(remove_duplicate=False))
    for name, value in values.items():
        if name not in own:
            return f"{kind} has no parameter called `{name}`; are all its parts modules of the model, under {names}?"
        if own[name].shape != value.shape:
            return f"{kind}'s parameter `{name}` has shape {tuple(own[name].shape)}; it should be {tuple(value.shape)}"
    with torch.no_grad():
        for name in sorted(own):
            value = values.get(name)
            own[name].copy_(torch.arange(own[name].numel()).cos().reshape(own[name].shape) if value is None else value)
    return None


def freeze(model):
    """Cached passes need no gradient; without a gradient, caches may be copied by any means, including copy.deepcopy."""
    model.requires_grad_(False)


def compare_gradient(got, expected, what, tol=None):
    """Of one input."""
    holds(got is not None, f"no gradient reaches {what}: somewhere the result is cut off from it")
    close(got, expected, f"the gradient of {what}", tol)


def compare_parameter_gradients(got, expected, tol, when=""):
    """Of all parameters, by name. A key's bias is left out: softmax ignores it, so its gradient is rounding and nothing else."""
    for name, gradient in expected.items():
        if name.endswith("W_k.bias"):
            continue
        with check:
            holds(got.get(name) is not None, f"no gradient reaches {name}: it will never learn")
            close(got[name], gradient, f"the gradient of {name}{when}", tol=tol)
