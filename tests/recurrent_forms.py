"""Recurrent layers in several forms: the definitions in float64, texts read in pieces, and operations that are counted."""

from __future__ import annotations

import math

import torch
from grader.verdict.comparing import close, holds
from grader.verdict.memory import StorageWatch
from pytest_check import check

EXACT = 1e-10  # what two right ways to compute differ by in float64, relative to the largest number


def delta_by_hand(q, k, v, beta, log_decay=None, state=None):
    """Output and last state of the delta rule, position by position."""
    S = q.new_zeros(*q.shape[:2], q.size(-1), v.size(-1)) if state is None else state
    outputs = []
    for t in range(q.size(2)):
        if log_decay is not None:
            S = S * log_decay[:, :, t].exp()[..., None, None]
        correction = beta[:, :, t, None] * (v[:, :, t] - torch.einsum("bhij,bhi->bhj", S, k[:, :, t]))
        S = S + torch.einsum("bhi,bhj->bhij", k[:, :, t], correction)
        outputs.append(torch.einsum("bhij,bhi->bhj", S, q[:, :, t]))
    return torch.stack(outputs, dim=2), S


def scan_by_hand(x, dt, A, B, C, D, state=None):
    """Output and last state of the selective scan, position by position."""
    memory = state if state is not None else x.new_zeros(len(x), *A.shape)
    outputs = []
    for t in range(x.size(1)):
        step = dt[:, t, :, None]
        memory = (step * A).exp() * memory + step * B[:, t, None] * x[:, t, :, None]
        outputs.append(torch.einsum("bdn,bn->bd", memory, C[:, t]) + D * x[:, t])
    return torch.stack(outputs, dim=1), memory


def convolution_by_hand(x, weight, state=None):
    """Output and last inputs of the short convolution, one column of the weight after the other."""
    before, T = weight.size(1) - 1, x.size(1)
    inputs = torch.cat([x.new_zeros(len(x), before, x.size(2)) if state is None else state, x], dim=1)
    output = torch.zeros_like(x)
    for j in range(before + 1):
        output = output + inputs[:, j : j + T] * weight[:, j]
    return output, inputs[:, T:]


def same_pair(got, expected, where="", tol=EXACT, what=("the output", "the state")):
    """Both parts of a result are as expected."""
    holds(isinstance(got, tuple | list) and len(got) == 2, f"the result{where} should be a pair: {what[0]} and {what[1]}")
    for name, mine, wanted in zip(what, got, expected):
        with check:
            close(mine, wanted, name + where, tol)


def in_pieces(f, sequences, lengths, axis, others, state):
    """For `bring`: the outputs, joined, and the last state of `f` for a text that is read in pieces of these lengths."""
    outputs = []
    for pieces in zip(*(values.split(lengths, axis) for values in sequences.values())):
        output, state = f(**dict(zip(sequences, pieces)), **others, state=state)
        outputs.append(output)
    return torch.cat(outputs, dim=axis), state


def both_in_one(f):
    """For `bring`: `f` with its output and its new state in one row of numbers, so gradients come from both."""

    def joined(*args):
        output, state = f(*args)
        return torch.cat([output.flatten(), state.flatten()])

    return joined


def flat(pair):
    """The same row of numbers."""
    return torch.cat([part.flatten() for part in pair])


def slopes_by_hand(f, inputs):
    """The weights of a sum of all numbers of `f`, and its gradients for each input."""
    leaves = [value.detach().clone().requires_grad_() for value in inputs]
    numbers = flat(f(*leaves))
    weights = torch.arange(numbers.numel(), dtype=numbers.dtype).mul(1.3).cos()
    return weights, torch.autograd.grad((numbers * weights).sum(), leaves)


def compare_slopes(found, expected, names, tol=1e-9):
    """The gradients of each argument."""
    for name, mine, wanted in zip(names, found, expected):
        with check:
            close(mine, wanted, f"the gradient of {name}", tol)


def counted(watch, f, args, limit, largest):
    """For `bring`: the result of `f` without gradient, and whether it made a tensor of `largest` entries or more.

    A call that runs more operations of torch than `limit` ends there, and has no result.
    """

    class TooMany(Exception):
        pass

    class Limited(watch):
        def look_at(self, func, out, args):
            out = super().look_at(func, out, args)
            if self.operators > limit:
                raise TooMany
            return out

    seen = Limited(args, f)
    try:
        with torch.no_grad(), seen:
            result = f(*args)
    except TooMany:
        result = None
    too_many, too_large = seen.operators > limit, seen.largest >= largest
    return {"result": result, "too many": too_many, "too large": too_large, "left torch": bool(seen.left_torch())}


def count_operations(learner, f, args, limit, largest=math.inf):
    """The result of `f(*args)`, whether it runs more operations of torch than `limit`, and makes a tensor of `largest` entries."""
    return learner.bring(counted)(learner.bring(StorageWatch), f, list(args), limit, largest)


def check_operations(found, sentence):
    """First of all: a call that ran too many operations has no result."""
    holds(not found["left torch"], "the numbers are taken out of torch, with numpy(), tolist() or item(); this test counts torch's operations, so compute with them")
    holds(not found["too many"], sentence)
