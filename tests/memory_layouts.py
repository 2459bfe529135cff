"""Inputs with another layout in memory, and results that the caller overwrites."""

from __future__ import annotations


def of_view(f, x, *others):
    """`f` of the same numbers as a view, whose two first axes are exchanged in memory."""
    return f(x.transpose(0, 1).contiguous().transpose(0, 1), *others)


def of_views(f, *inputs):
    """`f` of the same numbers, each tensor a view whose axes lie in the opposite order in memory."""
    import torch

    def view(x):
        backwards = tuple(reversed(range(x.dim())))
        return x.permute(backwards).contiguous().permute(backwards)

    return f(*[view(x) if isinstance(x, torch.Tensor) else x for x in inputs])


def after_overwriting(f, *args):
    """A second result of `f`, after the caller has overwritten the first one."""
    first = f(*args)
    kept = first.clone()
    first.fill_(7)
    second = f(*args).clone()
    first.copy_(kept)
    return second


def after_appending(f, argument, item):
    """A second result of `f`, after the caller has appended an item to the first one, if that is a list."""
    first = f(argument)
    if isinstance(first, list):
        first.append(item)
    return f(argument)
