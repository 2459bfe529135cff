"""What is done to a model before a test asks it anything: numbers put into it by name, gradient switched off."""

from __future__ import annotations

import torch
from grader.verdict.comparing import holds


def give(learner, model, values, kind, names="the names of the docstring"):
    """Both sides' models get the same numbers, however they tie their matrices; a parameter that is missing is told to the learner."""
    problem = learner.bring(fill)(model, values, kind, names)
    holds(problem is None, problem)


def fill(model, values, kind, names):
    """Copy values into the parameters of these names, one used in two places under either; what is left over gets the same numbers always."""
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


def frozen(model):
    """No gradient is asked of cached passes; without one, caches may be copied by any means, copy.deepcopy too."""
    model.requires_grad_(False)
