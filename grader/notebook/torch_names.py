"""Which of torch's own functions or classes an object is."""

from __future__ import annotations

import sys
import types
from typing import Any


def name_in_torch(thing: Any) -> str | None:
    """Its dotted name, such as `torch.nn.functional.softmax`; None if the object is not from torch."""
    name = getattr(thing, "__name__", None)
    if not isinstance(name, str) or "torch" not in sys.modules:
        return None
    import torch
    from grader.course.torch_internals import NATIVE_FUNCTIONS

    places = [torch, torch.nn.functional, torch.nn, torch.optim, torch.Tensor, torch.special, torch.linalg, NATIVE_FUNCTIONS]
    for place in places:
        if getattr(place, name, None) is thing:
            home = "torch.Tensor" if place is torch.Tensor else place.__name__
            return f"{home}.{name}"
    home = str(getattr(thing, "__module__", None) or "")
    if home.partition(".")[0] == "torch" and isinstance(thing, type | types.FunctionType | types.BuiltinFunctionType):
        return f"{home}.{name}"
    return None
