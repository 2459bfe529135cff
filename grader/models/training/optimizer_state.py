"""The state of anybody's AdamW as tensors, without a pickle.

The learner decides where averages and counts are: in a dict by parameter or by `id(parameter)`, in lists, in tuples. So
every number and tensor below the optimizer is stored, in the order of their places.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn


def read_state(optimizer: Any) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}

    def note(value: Any) -> Any:
        tensor = torch.as_tensor(value, dtype=getattr(value, "dtype", torch.float64))
        found[str(len(found))] = tensor.detach().cpu().contiguous().clone()
        return value

    _replace(optimizer, note)
    return found


def restore_state(optimizer: Any, state: Mapping[str, Tensor]) -> bool:
    """Give this state to an optimizer that has the places for it, and so has made an update; return whether it fits."""
    own = read_state(optimizer)
    if {place: value.shape for place, value in own.items()} != {place: value.shape for place, value in state.items()}:
        return False
    stored = (state[place] for place in own)
    with torch.no_grad():
        _replace(optimizer, lambda value: _filled(value, next(stored)))
    return True


def _filled(value: Any, stored: Tensor) -> Any:
    return value.copy_(stored) if isinstance(value, Tensor) else type(value)(stored.item())


def _replace(value: Any, new: Callable[[Any], Any]) -> Any:
    """Replace every number and tensor in this value, except parameters; return what belongs in its place."""
    if isinstance(value, Tensor | int | float) and not isinstance(value, nn.Parameter | bool):
        return new(value)
    if isinstance(value, tuple):
        children = [_replace(child, new) for child in value]
        return value._make(children) if hasattr(value, "_make") else tuple(children)
    if isinstance(value, list):
        value[:] = [_replace(child, new) for child in value]
    elif isinstance(value, dict):
        value.update([(key, _replace(child, new)) for key, child in value.items()])
    elif hasattr(value, "__dict__") and not callable(value) and not isinstance(value, nn.Parameter):
        _replace(vars(value), new)
    return value
