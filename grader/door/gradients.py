"""Autograd stays on the far side: this runs a call with gradient and returns everything by value."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def gradients(target: Any, inputs: list, options: dict, cotangent: Tensor | None) -> dict:
    """Output, and the gradients of <output, cotangent> by the inputs and by the parameters of the module called.

    An input that is no floating tensor has gradient None, and so has whatever the output does not depend on.
    """
    leaves = [_leaf(value) for value in inputs]
    module = target if isinstance(target, nn.Module) else getattr(target, "__self__", None)
    own = {name: p for name, p in module.named_parameters() if p.requires_grad} if isinstance(module, nn.Module) else {}
    with torch.enable_grad():
        output = target(*[leaf.view_as(leaf) if _floats(leaf) else leaf for leaf in leaves], **options)
    first = output[0] if isinstance(output, tuple | list) and output else output
    found: dict[int, Tensor] = {}
    wanted = [value for value in [*leaves, *own.values()] if _floats(value)]
    if isinstance(first, Tensor) and first.requires_grad:
        if cotangent is None:
            cotangent = torch.cos(torch.arange(first.numel(), dtype=torch.float64) * 0.7 + 0.3).reshape(first.shape)
        grads = torch.autograd.grad((first * cotangent.to(first.dtype)).sum(), wanted, allow_unused=True)  # grad_outputs= imports half of torch
        found = {id(value): grad for value, grad in zip(wanted, grads) if grad is not None}
    return {
        "output": output,
        "inputs": [found.get(id(leaf)) for leaf in leaves],
        "parameters": {name: found.get(id(parameter)) for name, parameter in own.items()},
    }


def _floats(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _leaf(value: Any) -> Any:
    return value.detach().clone().requires_grad_(True) if _floats(value) else value
