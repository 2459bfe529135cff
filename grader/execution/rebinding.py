"""Replaces some of a notebook's definitions by the reference's, while its code runs.

Code of a notebook finds its helpers among the notebook's globals, and a class has its base classes from the time when its cell ran. So the names are
bound to the reference's definitions, and classes that inherit from a replaced class inherit from the reference's, until the code has returned.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

_ABSENT = object()


@contextmanager
def replaced(space: dict[str, Any], definitions: dict[str, Any], classes: Iterable[type] = ()) -> Iterator[None]:
    """Use these definitions for their names in these globals, and as base classes of these classes; everything is restored afterwards."""
    with contextlib.ExitStack() as stack:
        for name, value in definitions.items():
            stack.callback(_bind, space, name, space.get(name, _ABSENT))
            space[name] = value
        for cls in classes:
            new = tuple(_replacement(base, cls, definitions) for base in cls.__bases__)
            with contextlib.suppress(TypeError):  # no order of the base classes is possible, or their objects differ in C: then the class stays as it is
                before, cls.__bases__ = cls.__bases__, new
                stack.callback(_set_bases, cls, before)
        yield


def inheriting_classes(space: dict[str, Any], values: Iterable[Any], definitions: dict[str, Any]) -> list[type]:
    """The classes of this module that inherit directly from a class with one of these names: among its globals, these values, and their base classes."""
    home = space.get("__name__")
    found = [cls for value in [*values, *list(space.values())] if isinstance(value, type) for cls in value.__mro__ if cls.__module__ == home]
    return [cls for cls in dict.fromkeys(found) if any(_replacement(base, cls, definitions) is not base for base in cls.__bases__)]


def _replacement(base: type, cls: type, definitions: dict[str, Any]) -> type:
    new = definitions.get(base.__name__) if base.__module__ == cls.__module__ else None
    return new if isinstance(new, type) else base


def _bind(space: dict[str, Any], name: str, value: Any) -> None:
    if value is _ABSENT:
        space.pop(name, None)
    else:
        space[name] = value


def _set_bases(cls: type, bases: tuple[type, ...]) -> None:
    cls.__bases__ = bases
