"""Notices, while the learner's code runs, the calls that would be the answer itself (the syllabus's `forbids`).

The source check (grader/forbids.py) reads; this one watches, and so sees `getattr(torch, "soft" + "max")` and `x.softmax(-1)` too: torch's
functions by a TorchFunctionMode, its classes by their `__init__`, its operators in the dispatcher (operators.py). A call counts when the learner's
own chapter made it, itself or through a library, a thread or a piece of text that it runs: torch may use its parts as it likes, and so may the
chapters grafted beside and what the test has brought (the `others`).
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from functools import cache
from types import FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ..names import bare
from .operators import Notice, noticing

_NAMES: dict[Callable, tuple[str, str]] = {}  # what each of torch's functions is called; it is asked at every call


@contextlib.contextmanager
def watching(forbids: tuple[str, ...], files: Collection[str], others: Collection[str], notice: Notice) -> Iterator[None]:
    """While this lasts, `notice` is told the forbidden names that are called from these files, and not by way of the others."""
    if not forbids:
        yield
        return
    here = threading.get_ident()

    def called(name: str) -> None:
        if threading.get_ident() != here or _called_from(files, others):
            notice(name)

    names = frozenset(forbids)
    originals = [(cls, cls.__init__) for cls in _classes(forbids)]
    for cls, original in originals:
        cls.__init__ = _telling(cls, original, called)
    try:
        with _Watch(names, called), noticing(names, called):
            yield
    finally:
        for cls, original in originals:
            cls.__init__ = original


class _Watch(TorchFunctionMode):
    def __init__(self, forbids: frozenset[str], called: Notice) -> None:
        super().__init__()
        self.forbids, self.called = forbids, called

    def __torch_function__(self, func, types, args=(), kwargs=None):
        names = _NAMES.get(func)
        if names is None:
            name = getattr(func, "__name__", "")
            names = _NAMES[func] = (name, bare(name))
        for name in names:
            if name in self.forbids:
                self.called(name)
        return func(*args, **kwargs) if kwargs else func(*args)


def _telling(cls: type, original, called: Notice):
    def __init__(self, *args, **kwargs):
        called(cls.__name__)
        original(self, *args, **kwargs)

    return __init__


@cache
def _classes(forbids: tuple[str, ...]) -> list[Any]:
    """Those of torch that bear a forbidden name. (Any: their __init__ is exchanged, which no type allows.)"""
    places = (torch.nn, torch.optim)
    return [cls for name in forbids for place in places if isinstance(cls := getattr(place, name, None), type)]


def _called_from(files: Collection[str], others: Collection[str]) -> bool:
    """Does the learner's chapter stand nearer among the callers than the others do?"""
    frame: FrameType | None = sys._getframe(3)
    while frame is not None:
        code = frame.f_code.co_filename
        if code in files:
            return True
        if code in others:
            return False
        frame = frame.f_back
    return False
