"""The results of an example's requests, by the names that tested code uses for them.

`_4` is the result of request 4 of the example, `_4_inputs_0` a gradient of a `gradients` request. A value is found by its identity.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from grader.execution.proxy import Boundary
from torch import Tensor

RESULT = re.compile(r"\b_(\d+)(?:_(output|inputs_\d+|parameters))?\b")


class Unknown(Exception):
    """This part of a test's source cannot be written as code over results."""


@dataclass
class NamedResults:
    """The results of all requests of the example, by name and by identity."""

    boundary: Boundary
    space: dict[str, Any] = field(default_factory=dict)
    tokens: dict[Any, str] = field(default_factory=dict)
    tensors: list[tuple[str, Tensor]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for reading in self.boundary.readings:
            if self.boundary.log[reading.position].op == "gradients":
                self._add_gradients(f"_{reading.position}", reading.value)
            else:
                self._add(f"_{reading.position}", reading.value)
        for call in self.boundary.calls:
            if 0 <= call.position < len(self.boundary.log) and self.boundary.log[call.position].op != "gradients":
                self._add(f"_{call.position}", call.result)

    def _add_gradients(self, name: str, found: dict) -> None:
        self._add(f"{name}_output", found["output"])
        self.tokens[id(found["inputs"])] = f"{name}_inputs"
        for number, gradient in enumerate(found["inputs"]):
            self._add(f"{name}_inputs_{number}", gradient)
        self._add(f"{name}_parameters", found["parameters"])

    def _add(self, name: str, value: Any) -> None:
        self.space[name] = value
        for text, part in _parts(name, value):
            if (key := _identity(part)) is not None:
                self.tokens[key] = text
            if isinstance(part, Tensor):
                self.tensors.append((text, part))

    def token_of(self, value: Any) -> str:
        """The code of a result, or of a part of one; empty if it is neither."""
        key = _identity(value)
        if key is None:
            return ""
        return self.tokens.get(key, "") or (self._view(value, key) if isinstance(value, Tensor) else "")

    def _view(self, value: Tensor, key: Any) -> str:
        """A row or a column of a result."""
        for text, whole in self.tensors:
            if whole.is_meta or value.is_meta or whole.untyped_storage()._cdata != value.untyped_storage()._cdata:
                continue
            for index, part in _slices(whole):
                if _identity(part) == key:
                    return f"{text}{index}"
        return ""

    def called_at(self, node: ast.Call, file: str) -> str:
        """The result of the last call of the implementation that this expression made."""
        name = node.func.attr if isinstance(node.func, ast.Attribute) else called_name(node)
        first, last = node.lineno, node.end_lineno or node.lineno
        made = [c for c in self.boundary.calls if any(where == file and first <= line <= last for where, line in c.lines) and c.position < len(self.boundary.log)]
        if isinstance(node.func, ast.Attribute):
            made = [call for call in made if re.search(rf"(^|\.){re.escape(name)}$", call.what)]
        if not made:
            raise Unknown
        return f"_{made[-1].position}"

    def only_reading(self, op: str) -> str:
        """The result of the only request of this kind."""
        found = {reading.position for reading in self.boundary.readings if self.boundary.log[reading.position].op == op}
        if len(found) != 1:
            raise Unknown
        return f"_{found.pop()}"


def _slices(whole: Tensor) -> Iterator[tuple[str, Tensor]]:
    if whole.ndim and whole.shape[0] <= 64:
        for i in range(whole.shape[0]):
            yield f"[{i}]", whole[i]
            if whole.ndim > 1 and whole.shape[1] <= 64:
                yield from ((f"[{i}, {j}]", whole[i, j]) for j in range(whole.shape[1]))
    if whole.ndim > 1 and whole.shape[1] <= 64:
        yield from ((f"[:, {j}]", whole[:, j]) for j in range(whole.shape[1]))
    if whole.ndim > 2 and whole.shape[-1] <= 64:
        yield from ((f"[..., {j}]", whole[..., j]) for j in range(whole.shape[-1]))
        yield from ((f"[:, :, {j}]", whole[:, :, j]) for j in range(min(64, whole.shape[2])))


def _parts(name: str, value: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    yield name, value
    if depth < 5 and isinstance(value, list | tuple) and len(value) <= 200:
        for number, part in enumerate(value):
            yield from _parts(f"{name}[{number}]", part, depth + 1)
    elif depth < 5 and isinstance(value, dict) and len(value) <= 200:
        for key, part in value.items():
            yield from _parts(f"{name}[{key!r}]", part, depth + 1)


def _identity(value: Any) -> Any:
    """A key that only this value has; None for values that Python may share."""
    if isinstance(value, Tensor):
        if value.is_meta or not value.numel():
            return id(value)
        return value.data_ptr(), tuple(value.shape), value.stride(), value.dtype
    if isinstance(value, list | tuple | dict | float | set):
        return id(value)
    return None


def called_name(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""
