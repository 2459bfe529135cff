"""Notices, while the learner's code runs, the calls that would be the answer itself (the syllabus's `forbids`).

The source check (grader/forbids.py) reads; this one watches, and so sees `getattr(torch, "soft" + "max")` and `x.softmax(-1)` too: torch's
functions by a TorchFunctionMode and by their code, its classes by their `__init__`, its operators in the dispatcher (operators.py).
A call counts when the learner's own chapter made it, itself or through a library, a thread or a piece of text that it runs: torch may use its
parts as it likes, and so may the chapters grafted beside and what the test has brought (the `others`).
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from functools import cache
from types import CodeType, FrameType, FunctionType
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
    functions = _functions(names)
    for cls, original in originals:
        cls.__init__ = _telling(cls, original, called)
    for function in functions:
        function.tell(called)
    try:
        with _Watch(names, called), noticing(names, called):
            yield
    finally:
        for function in functions:
            function.be_quiet()
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


class _Function:
    """One of torch's functions that are written in Python. Its code is exchanged, so that whoever holds the function already is seen too."""

    def __init__(self, function: FunctionType) -> None:
        self.function, self.code = function, function.__code__
        self.listening: list[Notice] = []
        self.original = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)
        self.original.__kwdefaults__ = function.__kwdefaults__
        self.known_as = f"_headway_tells_of_{function.__name__}"
        calling = compile(f"lambda *args, **kwargs: {self.known_as}(*args, **kwargs)", function.__code__.co_filename, "eval")
        self.telling = next(part for part in calling.co_consts if isinstance(part, CodeType))

    def _told(self, *args, **kwargs):
        for called in tuple(self.listening):
            called(self.function.__name__)
        return self.original(*args, **kwargs)

    def tell(self, called: Notice) -> None:
        self.listening.append(called)
        self.function.__globals__[self.known_as] = self._told
        self.function.__code__ = self.telling

    def be_quiet(self) -> None:
        self.listening.pop()
        if not self.listening:
            self.function.__code__ = self.code
            del self.function.__globals__[self.known_as]


@cache
def _functions(names: frozenset[str]) -> list[_Function]:
    """Those of torch's modules, as far as they are loaded, that bear a forbidden name, and are made of nothing but their own code."""
    found: dict[int, FunctionType] = {}
    for place in [module for name, module in tuple(sys.modules.items()) if name.startswith("torch.")]:
        for name in names:
            function = inspect.unwrap(value) if isinstance(value := getattr(place, "__dict__", {}).get(name), FunctionType) else None
            if isinstance(function, FunctionType) and not function.__closure__ and function.__name__ in names:
                found[id(function)] = function
    return [_Function(function) for function in found.values()]


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
