"""Notices, while the learner's code runs, the calls that would be the answer itself (the syllabus's `forbids`).

The source check (grader/forbids.py) reads; this one watches, and so sees `getattr(torch, "soft" + "max")` and `x.softmax(-1)` too.
A call counts when the learner's own chapter made it, itself or through a library or a piece of text that it runs: torch may use its parts as
it likes, and so may the chapters grafted beside and what the test has brought (the `others`).
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Collection, Iterator
from functools import cache
from types import FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_NAMES: dict[Callable, str] = {}  # what each of torch's functions is called; it is asked at every call


@contextlib.contextmanager
def watching(forbidden: tuple[str, ...], files: Collection[str], others: Collection[str], found: set[str]) -> Iterator[None]:
    """While this lasts, forbidden names called from these files, and not by way of the others, are added to `found`."""
    if not forbidden:
        yield
        return
    originals = [(cls, cls.__init__) for cls in _classes(forbidden)]
    for cls, original in originals:
        cls.__init__ = _noticing(cls, original, files, others, found)
    try:
        with _Watch(frozenset(forbidden), files, others, found):
            yield
    finally:
        for cls, original in originals:
            cls.__init__ = original


class _Watch(TorchFunctionMode):
    def __init__(self, forbidden: frozenset[str], files: Collection[str], others: Collection[str], found: set[str]) -> None:
        super().__init__()
        self.forbidden, self.files, self.others, self.found = forbidden, files, others, found

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = _NAMES.get(func)
        if name is None:
            name = _NAMES[func] = getattr(func, "__name__", "").lstrip("_").removeprefix("special_")
        if name in self.forbidden and _called_from(self.files, self.others):
            self.found.add(name)
        return func(*args, **kwargs) if kwargs else func(*args)


def _noticing(cls: type, original, files: Collection[str], others: Collection[str], found: set[str]):
    def __init__(self, *args, **kwargs):
        if _called_from(files, others):
            found.add(cls.__name__)
        original(self, *args, **kwargs)

    return __init__


@cache
def _classes(forbidden: tuple[str, ...]) -> list[Any]:
    """Those of torch that bear a forbidden name. (Any: their __init__ is exchanged, which no type allows.)"""
    places = (torch.nn, torch.optim)
    return [cls for name in forbidden for place in places if isinstance(cls := getattr(place, name, None), type)]


def _called_from(files: Collection[str], others: Collection[str]) -> bool:
    """Does the learner's chapter stand nearer among the callers than the others do?"""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        code = frame.f_code.co_filename
        if code in files:
            return True
        if code in others:
            return False
        frame = frame.f_back
    return False
