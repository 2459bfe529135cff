"""Chapter 8, second part: clipping gradients that are too long."""

import math
from types import SimpleNamespace

import torch
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds
from hypothesis import given, settings
from pytest_check import check
from strategies import distinct, seeds, tensor
from torch import nn

# ---- clip_gradients


def clipped(clip_gradients, gradients, max_norm, as_generator):
    """Clip parameters with these gradients: the result, the gradients after it, and whether the parameters are unchanged; for `bring`.

    From a generator, a matrix and its gradient are transposed in memory, and the last parameter was frozen after its gradient was computed.
    """
    if as_generator:
        gradients = [g.t().contiguous().t() if g.dim() == 2 else g for g in gradients]
    every = [nn.Parameter(torch.ones(2) if g is None else torch.ones_like(g)) for g in gradients]
    for parameter, g in zip(every, gradients):
        parameter.grad = None if g is None else g.clone()
    every[-1:] = [parameter.requires_grad_(not as_generator) for parameter in every[-1:]]
    held = [parameter.grad for parameter in every]
    came_back = clip_gradients((parameter for parameter in every) if as_generator else every, max_norm)
    replaced = any(parameter.grad is not before for parameter, before in zip(every, held))
    return came_back, [parameter.grad for parameter in every], all(bool((parameter == 1).all()) for parameter in every), replaced


def clip(learner, gradients, max_norm, as_generator=False):
    norm, after, kept, replaced = learner.bring(clipped)(learner.clip_gradients, gradients, max_norm, as_generator)
    return SimpleNamespace(norm=norm, after=after, kept=kept, replaced=replaced)


def unequal(n, seed, dtype=torch.float32):
    """Gradients of three shapes, one large, one small, one a single number."""
    return [tensor(seed, n.a, n.b, scale=3.0, dtype=dtype), tensor(seed + 1, n.c, scale=0.4, dtype=dtype), torch.tensor(2.0 + seed % 3, dtype=dtype)]


def length(gradients):
    return math.sqrt(sum(float(g.double().square().sum()) for g in gradients if g is not None))


def scaled(gradients, factor):
    return [None if g is None else g * factor for g in gradients]


def same_gradients(got, expected, when, tol=1e-4):
    for i, (mine, wanted) in enumerate(zip(got, expected)):
        if wanted is None:
            with check:
                holds(mine is None, f"parameter {i} had no gradient before, but has one now")
        else:
            with check:
                close(mine, wanted, f"the gradient of parameter {i} {when}", tol=tol)


@exercise("clip_gradients", weight=3)
@settings(max_examples=3)
@given(n=distinct("a", "b", "c"), seed=seeds)
def test_all_gradients_are_scaled_by_one_factor(learner, n, seed):
    """Gradients whose joint norm is above max_norm are all multiplied by max_norm / norm, in place, so that their common direction does not change."""
    gradients = unequal(n, seed)
    norm = length(gradients)
    found = {limit: clip(learner, gradients, limit) for limit in (1.0, norm / 3, 0.02)}
    for limit, got in found.items():
        same_gradients(got.after, scaled(gradients, limit / norm), f"of joint norm {norm:.3f}, clipped to {limit:.3f},")
        close(got.norm, norm, "the norm that comes back", tol=1e-4)
        holds(got.kept, "the parameters themselves were changed; scale only their gradients")
        holds(not got.replaced, "a parameter has a new gradient tensor; change the one that it has, in place")


@exercise("clip_gradients", weight=2)
@settings(max_examples=3)
@given(n=distinct("a", "b", "c"), seed=seeds)
def test_the_norm_before_clipping_is_returned(learner, n, seed):
    """The result is the norm of all gradients as one long vector, as a float, before clipping, whether they are clipped or not."""
    gradients = unequal(n, seed)
    norm = length(gradients)
    shortened, left, triangle = clip(learner, gradients, 0.5), clip(learner, gradients, 1e3), clip(learner, [torch.tensor([3.0, 0.0]), torch.tensor([4.0])], 1.0)
    close(triangle.norm, 5.0, "the norm of the gradients (3, 0) and (4)")
    close(shortened.norm, norm, "the returned norm with max_norm = 0.5")
    close(left.norm, norm, "the returned norm with max_norm = 1000")
    holds(isinstance(shortened.norm, float | int), "the norm should be a float; it is a tensor: use .item()")
    same_gradients(triangle.after, [torch.tensor([0.6, 0.0]), torch.tensor([0.8])], "of (3, 0) and (4), clipped to 1,")


@exercise("clip_gradients", weight=2)
@settings(max_examples=3)
@given(n=distinct("a", "b", "c"), seed=seeds)
def test_gradients_within_max_norm_do_not_change(learner, n, seed):
    """Gradients whose joint norm is below max_norm do not change, and are never enlarged; zeros stay zeros."""
    gradients = unequal(n, seed)
    norm = length(gradients)
    above, far, tight = clip(learner, gradients, norm * 1.05), clip(learner, gradients, 1e3), clip(learner, gradients, norm * 0.95)
    zeros = clip(learner, scaled(gradients, 0.0), 1.0)
    same_gradients(above.after, gradients, "below the limit", tol=1e-6)
    same_gradients(far.after, gradients, "far below the limit", tol=1e-6)
    same_gradients(tight.after, scaled(gradients, 0.95), "a little above the limit")
    same_gradients(zeros.after, scaled(gradients, 0.0), "that was zero")
    close(zeros.norm, 0.0, "the norm of zeros")
    close(above.norm, norm, "the norm that comes back")


@exercise("clip_gradients", weight=2)
@settings(max_examples=3)
@given(n=distinct("a", "b", "c"), seed=seeds)
def test_parameters_without_gradient_do_not_count(learner, n, seed):
    """Parameters whose gradient is None are skipped; if no parameter has a gradient, or there is no parameter, the norm is 0.0."""
    first, second, third = unequal(n, seed)
    gradients = [None, first, None, second, third]
    some, none, empty = clip(learner, gradients, 0.7), clip(learner, [None, None], 0.7), clip(learner, [], 0.7)
    same_gradients(some.after, scaled(gradients, 0.7 / length(gradients)), "next to parameters without gradient,")
    close(some.norm, length(gradients), "the norm if some parameters have no gradient")
    close(none.norm, 0.0, "the norm if no parameter has a gradient")
    close(empty.norm, 0.0, "the norm of an empty list of parameters")


@exercise("clip_gradients")
@settings(max_examples=3)
@given(n=distinct("a", "b", "c"), seed=seeds)
def test_parameters_may_come_from_a_generator(learner, n, seed):
    """The parameters may be a generator, which can be iterated only once, transposed in memory, or frozen with a gradient. Float64 keeps its digits."""
    for dtype in (torch.float32, torch.float64):
        gradients = unequal(n, seed, dtype)
        got = clip(learner, gradients, 0.9, as_generator=True)
        same_gradients(got.after, scaled(gradients, 0.9 / length(gradients)), "of parameters from a generator")
        close(got.norm, length(gradients), f"the norm of gradients in {str(dtype).removeprefix('torch.')}", tol=1e-5 if dtype == torch.float32 else 1e-9)
