"""Runs a call with gradient in the host, where autograd stays, and returns everything by value."""

from __future__ import annotations

import traceback
from typing import Any

import torch
from torch import Tensor, nn


class NoGradient(Exception):
    """Autograd cannot compute the gradient of the result; the message is for the learner."""


def gradients(target: Any, inputs: list, options: dict, cotangent: Tensor | None) -> dict:
    """Output, and the gradients of <output, cotangent> by the inputs and by the parameters of the module called.

    The gradient is None for an input that is not a floating tensor, and for everything that the output does not depend
    on. All are None where the output does not fit the cotangent: the tests' side reports the wrong output.
    """
    leaves = [_leaf(value) for value in inputs]
    module = target if isinstance(target, nn.Module) else getattr(target, "__self__", None)
    # a tied one has two names
    named = sorted(module.named_parameters(remove_duplicate=False)) if isinstance(module, nn.Module) else []
    own = {name: parameter for name, parameter in named if parameter.requires_grad}
    with torch.enable_grad():
        output = target(*[leaf.view_as(leaf) if _floats(leaf) else leaf for leaf in leaves], **options)
    first = output[0] if isinstance(output, tuple | list) and output else output
    found: dict[int, Tensor] = {}
    wanted = [value for value in [*leaves, *own.values()] if _floats(value)]
    if _floats(first) and first.requires_grad and first.layout is torch.strided and not first.is_nested:
        if cotangent is None:
            cotangent = (
                torch.cos(torch.arange(first.numel(), dtype=torch.float64) * 0.7 + 0.3)
                .reshape(first.shape)
                .to(first.device)
            )
        if first.shape == cotangent.shape and first.device == cotangent.device:
            grads = _differentiate((first * cotangent.to(first.dtype)).sum(), wanted)
            found = {id(value): grad for value, grad in zip(wanted, grads) if grad is not None}
    return {
        "output": output,
        "inputs": [found.get(id(leaf)) for leaf in leaves],
        "parameters": {name: found.get(id(parameter)) for name, parameter in own.items()},
    }


def _differentiate(total: Tensor, wanted: list[Tensor]) -> tuple[Tensor | None, ...]:
    """The gradients; NoGradient if autograd refuses. An error raised by a `backward` of the learner's own passes."""
    try:
        return torch.autograd.grad(total, wanted, allow_unused=True)  # grad_outputs= imports half of torch
    except RuntimeError as problem:
        frames = (str(frame.f_globals.get("__name__")) for frame, _ in traceback.walk_tb(problem.__traceback__))
        if any(name.partition(".")[0] not in ("torch", "grader") for name in frames):  # grader: calls that are watched
            raise
        reason = str(problem).partition("\n")[0]
        if "modified by an inplace operation" in reason:
            reason = "a tensor that it depends on is changed in place; compute a new tensor"
        raise NoGradient(f"the gradient of the result cannot be computed: {reason}") from None


def is_defined_in(package: str, target: Any) -> bool:
    """Is this function, module or method defined in the package, or in a chapter of it?"""
    owner = getattr(target, "__self__", target)
    for thing in (target, owner, type(owner)):
        module = getattr(thing, "__module__", "")
        if isinstance(module, str) and (module == package or module.startswith(package + ".")):
            return True
    return False


def with_gradient(values: Any) -> Any:
    """The same arguments with gradient tracking, so that a result shows whether it was computed from a floating
    tensor."""
    if isinstance(values, dict):
        return {name: with_gradient(value) for name, value in values.items()}
    if isinstance(values, tuple | list):
        return type(values)(with_gradient(value) for value in values)
    return values.detach().requires_grad_(True).clone() if _floats(values) and torch.is_grad_enabled() else values


def is_cut_off(target: Any, args: tuple, options: dict, result: Any) -> bool:
    """Is a floating result without gradient, although an argument or a parameter has one?"""
    first = result[0] if isinstance(result, tuple | list) and result else result
    if not _floats(first) or first.requires_grad:
        return False
    module = target if isinstance(target, nn.Module) else getattr(target, "__self__", None)
    sources = [*args, *options.values(), *(module.parameters() if isinstance(module, nn.Module) else ())]
    return any(_floats(source) and source.requires_grad for source in sources)


def _floats(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _leaf(value: Any) -> Any:
    return value.detach().clone().requires_grad_(True) if _floats(value) else value
