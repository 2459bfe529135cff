"""What the backward functions of chapter 13 are compared with: autograd on the reference's side, and numeric_gradient on the learner's."""

from __future__ import annotations

import torch
from grader.execution.proxy import gradients
from grader.verdict.comparing import close, holds, sizes
from grader.verdict.memory import StorageWatch
from pytest_check import check
from torch import Tensor


def linear(x, weight, bias):
    """For `bring`: no chapter has a linear layer as a function."""
    return x @ weight.transpose(-2, -1) + bias


def look_up(table, ids):
    """For `bring`."""
    return table[ids]


def normalise(LayerNorm, eps):
    """For `bring`: chapter 5's layer norm as a function of x, weight and bias, so that each of them can be varied."""

    def forward(x, weight, bias):
        layer = LayerNorm(x.size(-1), eps).to(x.dtype)
        del layer.weight, layer.bias
        layer.weight, layer.bias = weight, bias
        return layer(x)

    return forward


def one_number(forward, cotangent, inputs, place):
    """For `bring`: a function of the input at this place alone: the sum of the output times the cotangent."""

    def f(value):
        output = forward(*inputs[:place], value, *inputs[place + 1 :])
        output = output[0] if isinstance(output, tuple) else output
        return (output * cotangent).sum()

    return f


def on_inference_tensors(f, *args):
    """For `bring`: what `f` gives for copies of these arguments in inference mode, where autograd records nothing."""
    with torch.inference_mode():
        return f(*[value.clone() if isinstance(value, torch.Tensor) else value for value in args])


def in_bfloat16(f, *args):
    """For `bring`: what `f` gives for these arguments, with every floating-point tensor in bfloat16."""
    return f(*[value.bfloat16() if isinstance(value, torch.Tensor) and value.is_floating_point() else value for value in args])


def on_views(f, *args):
    """For `bring`: what `f` gives for the same numbers in tensors that are not contiguous. (Tensors that cross the boundary always are.)"""

    def view(value):
        if not isinstance(value, torch.Tensor) or value.dim() == 0:
            return value
        if value.dim() == 1:
            return torch.stack([value, value], -1)[..., 0]
        return value.transpose(0, -1).contiguous().transpose(0, -1)

    return f(*[view(value) for value in args])


def result_number(f, place):
    """For `bring`: `f` with one of its results."""

    def chosen(*args):
        return f(*args)[place]

    return chosen


def measures(watch, f, *args):
    """For `bring`: does `f` take as much work as measuring every entry of its results, or is its work out of sight?"""
    with watch(args) as seen:
        found = f(*args)
    entries = sum(each.numel() for each in (found if isinstance(found, tuple | list) else [found]) if isinstance(each, torch.Tensor))
    if seen.left_torch():
        return "left torch"
    return "measured" if entries > 0 and seen.operators >= 4 * entries and seen.floats >= 3 * entries**2 else ""


def is_measured(learner, f, *args) -> str:
    """"measured" if `f` takes two calls of the forward function for each entry of its results, as numeric_gradient does.

    Code of any other style takes less: a loop over the entries needs many operators, each for few numbers, and a whole Jacobian needs few operators.
    The result is "left torch" if `f` computes elsewhere, where nothing is counted, and empty for code that computes its gradients.
    """
    return learner.bring(measures)(learner.bring(StorageWatch), f, *args)


def computed(measured: str) -> None:
    """Refuse gradients that were measured."""
    holds(measured != "left torch", "the numbers are taken out of torch, with numpy(), tolist() or item(); this test counts torch's operations, so compute with them")
    holds(not measured, "each entry of the gradient is measured, with two forward passes; a rule computes all entries at once, with the work of about two passes")


def leading(n, *names: str, lead: int) -> tuple[int, ...]:
    """The last `lead` of these sizes, as the leading axes of a tensor. A further size A, which only a pinned example has, comes first."""
    sizes(**{axis: None for axis in names[: len(names) - lead]})
    return tuple(getattr(n, axis) for axis in ("A", *names)[len(names) + 1 - lead :])


def by_autograd(forward, cotangent: Tensor, *inputs) -> list[Tensor]:
    """The gradients that autograd computes, for each floating-point input."""
    found = gradients(forward, *inputs, cotangent=cotangent).inputs
    return [torch.zeros_like(value) if gradient is None else gradient for gradient, value in zip(found, inputs) if _is_floating(value)]


def by_measuring(learner, forward, cotangent: Tensor, *inputs) -> list[Tensor]:
    """The gradients that the learner's numeric_gradient measures, for each floating-point input."""
    number = learner.bring(one_number)
    return [learner.numeric_gradient(number(forward, cotangent, list(inputs), place), value) for place, value in enumerate(inputs) if _is_floating(value)]


def _is_floating(value) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def compare_gradients(got, expected: dict[str, Tensor], where: str = "", tol: float | None = None) -> None:
    """The result is a tuple of tensors with these names, or the one tensor."""
    if len(expected) > 1:
        right = isinstance(got, tuple | list) and len(got) == len(expected)
        holds(right, f"the result should be a tuple of {len(expected)} tensors: {', '.join(expected)}")
    for (name, value), mine in zip(expected.items(), got if len(expected) > 1 else [got]):
        with check:
            close(mine, value, f"{name}{where}", tol)


HALF_PRECISION = 0.3  # of the largest number: each right way to write a formula rounds differently in bfloat16


def rounded(values):
    """Expected gradients in bfloat16."""
    return [value.bfloat16() for value in values]


def combined(values, others, a: float, b: float):
    """a times the first gradients plus b times the others; tuples of tensors entry by entry."""
    if isinstance(values, Tensor) and isinstance(others, Tensor):
        return a * values + b * others
    holds(isinstance(values, tuple | list) and isinstance(others, tuple | list), "the result should be the gradients, as tensors")
    return [combined(value, other, a, b) for value, other in zip(values, others)]
