"""The state of anybody's AdamW as tensors and numbers, without a pickle.

The learner decides where moments and counts are: in a dict by parameter, by `id(parameter)` or by name, in lists side
by side, in tuples, in objects. So the state is read as a tree: every number and tensor below the optimizer has a path.
To restore it, a fresh optimizer makes one update without gradients, which gives it the same places; then each place
gets its value back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import Tensor, nn

Path = str


class StateProblem(Exception):
    """The state does not fit this optimizer; the message is a sentence."""


@dataclass
class OptimizerState:
    tensors: dict[Path, Tensor]
    numbers: dict[Path, float | int | bool | str | None]


_LEAVES = (bool, int, float, str, type(None))
_SKIPPED = (type, FunctionType, MethodType, BuiltinFunctionType, ModuleType, nn.Module, torch.Generator)


def read_state(optimizer: Any, parameters: Sequence[nn.Parameter]) -> OptimizerState:
    state = OptimizerState({}, {})
    for path, value in _leaves(optimizer, "", _numbers_of(parameters), set()):
        if isinstance(value, Tensor):
            state.tensors[path] = value.detach()
        else:
            state.numbers[path] = value
    return state


def restore_state(
    optimizer: Any, parameters: Sequence[nn.Parameter], state: OptimizerState, updated: Sequence[int]
) -> None:
    """Give a fresh optimizer this state. `updated` are the numbers of the parameters that have ever had a gradient.
    Changes the parameters' values."""
    known = _numbers_of(parameters)
    for number in updated:
        parameters[number].grad = torch.zeros_like(parameters[number])
    optimizer.step()
    for parameter in parameters:
        parameter.grad = None
    places = {path for path, _ in _leaves(optimizer, "", known, set())}
    if different := places ^ (state.tensors.keys() | state.numbers.keys()):
        raise StateProblem(
            "the optimizer keeps its state in another way than when it was saved (see "
            f"{min(different)}); has your AdamW changed?"
        )
    with torch.no_grad():
        _write(optimizer, "", known, state, set())


def _numbers_of(parameters: Sequence[nn.Parameter]) -> dict[int, int]:
    return {id(parameter): number for number, parameter in enumerate(parameters)}


def _label(key: Any, known: dict[int, int]) -> str:
    """A key's name in a path: the same in another process, where objects have other ids."""
    if isinstance(key, Tensor) and id(key) in known:
        return f"parameter {known[id(key)]}"
    if isinstance(key, int) and key in known:
        return f"id {known[key]}"
    return f"{type(key).__name__} {key}" if isinstance(key, _LEAVES) else f"key {key!r}"


def _children(value: Any, known: dict[int, int]) -> list[tuple[str, Any, Any]]:
    """(label, key, child) of a container; the key is what a new child is stored under."""
    if isinstance(value, Mapping):
        return [(_label(key, known), key, child) for key, child in value.items()]
    if isinstance(value, list | tuple):
        return [(str(i), i, child) for i, child in enumerate(value)]
    names = dict(vars(value)) if hasattr(value, "__dict__") else {}
    for kind in type(value).__mro__:
        for name in getattr(kind, "__slots__", ()):
            if hasattr(value, name):
                names[name] = getattr(value, name)
    return [(name, name, child) for name, child in names.items()]


def _is_skipped(value: Any, known: dict[int, int]) -> bool:
    return isinstance(value, _SKIPPED) or (isinstance(value, Tensor) and id(value) in known)


def _leaves(value: Any, path: str, known: dict[int, int], above: set[int]) -> Iterator[tuple[Path, Any]]:
    if _is_skipped(value, known):
        return
    # an id is another number in another process
    if isinstance(value, int) and not isinstance(value, bool) and value in known:
        return
    if isinstance(value, (Tensor, *_LEAVES)):
        yield path, value
        return
    if id(value) in above:
        return
    above.add(id(value))
    for label, _, child in _children(value, known):
        yield from _leaves(child, f"{path}/{label}", known, above)


def _write(value: Any, path: str, known: dict[int, int], state: OptimizerState, above: set[int]) -> Any:
    """Return what belongs in the place of this value; containers are changed in place where that is possible."""
    if _is_skipped(value, known) or (isinstance(value, int) and not isinstance(value, bool) and value in known):
        return value
    if isinstance(value, Tensor):
        stored = state.tensors.get(path)
        if stored is None:
            raise StateProblem(f"{path} was no tensor when it was saved; has your AdamW changed?")
        if stored.shape != value.shape or stored.dtype != value.dtype:
            return stored.clone().to(value.device)
        value.copy_(stored)
        return value
    if isinstance(value, _LEAVES):
        if path in state.tensors:
            return state.tensors[path].clone()
        return state.numbers[path]
    if id(value) in above:
        return value
    above.add(id(value))
    children = [
        (label, key, child, _write(child, f"{path}/{label}", known, state, above))
        for label, key, child in _children(value, known)
    ]
    if isinstance(value, tuple):
        new = [child for _, _, _, child in children]
        return type(value)(*new) if hasattr(value, "_fields") else type(value)(new)
    for _, key, old, new_child in children:
        if new_child is old:
            continue
        if isinstance(value, MutableMapping | list):
            value[key] = new_child
        else:
            setattr(value, key, new_child)
    return value
