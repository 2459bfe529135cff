"""Trivial implementations: the points that they earn are points that the tests give away."""

from __future__ import annotations

import inspect

KINDS = ("none", "constant", "input", "zeros", "refuses")


def degenerate(text: str, exercise: str, kind: str) -> str:
    """The chapter with this exercise replaced by one that returns None, a constant, its input, right-shaped zeros, or raises ValueError.

    A class keeps its __init__ (except when it is to raise): the names are right and nothing else is.
    """
    return f"{text}\n\n{inspect.getsource(_degrade)}\n\n_degrade(globals(), {exercise!r}, {kind!r})\n"


def _degrade(space, name, kind):
    import functools
    import inspect

    import torch

    def zeros(value):
        if isinstance(value, torch.nn.Module):
            for parameter in value.parameters():
                torch.nn.init.zeros_(parameter)
            return value
        if isinstance(value, torch.Tensor):
            return value * 0 if value.is_floating_point() else torch.zeros_like(value)
        if isinstance(value, list | tuple):
            return type(value)(zeros(item) for item in value)
        return type(value)() if isinstance(value, bool | int | float | str | bytes | dict) else value

    def replaced(original, method):
        works_on_its_arguments = inspect.signature(original).return_annotation in (None, "None")  # its effect is on its arguments, not in its result

        @functools.wraps(original)
        def answer(*args, **kwargs):
            given = [*args[1 if method else 0 :], *kwargs.values()]
            if kind == "refuses":
                raise ValueError("these arguments cannot work: " + ", ".join(map(str, given)))
            if kind == "zeros" and works_on_its_arguments:
                return None
            if kind == "zeros":
                return zeros(original(*args, **kwargs))
            return {"none": None, "constant": torch.ones(2, 3), "input": given[0] if given else None}[kind]

        return answer

    thing = space[name]
    if not inspect.isclass(thing):
        space[name] = replaced(thing, False)
        return
    for attribute, value in list(vars(thing).items()):
        if isinstance(value, property):
            setattr(thing, attribute, property(replaced(value.fget, True)))
        elif inspect.isfunction(value) and (not attribute.startswith("_") or attribute == "__call__" or (kind == "refuses" and attribute == "__init__")):
            setattr(thing, attribute, replaced(value, True))
