"""Sees torch's operators in torch's dispatcher, which runs each operator whatever called it: Python, a thread,
autograd, or a compiled graph.

The dispatcher has a key for tests of such things. While it is on, an operator that has a kernel for this key runs that
kernel first, and no other operator becomes slower. Only forbidden operators get a kernel. The key is on in one thread;
threads that this thread starts switch it on too.

Inside a `__torch_dispatch__` torch leaves that key out. A second kernel, for the key that chooses the backend, works in
every thread; but an operator that torch composes of others never reaches that key. So there are two.

`grader/course/torch_internals.py` holds the private functions of torch that this needs.
"""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import torch
from grader.course.torch_internals import (
    EXPORTS,
    LOOKUPS,
    MODE_PLACES,
    MODES,
    NATIVE,
    RUNTIMES,
    SWITCHES,
    DispatchKeySet,
    activate_modes,
    active_modes,
    dispatch_key,
    exclude_keys,
    force_keys,
    has_arguments,
    include_key,
    is_key_included,
    pass_through,
    takes_keyset,
    wrap_calls_by_key,
)  # fmt: skip
from grader.course.torch_operators import GRADER_STATE, OTHER_RUNTIME, forbidden_operators
from grader.execution.forbidden import report
from grader.execution.forbidden.audit import is_asked_by_tested_code

_KEY = "TESTING_ONLY_GenericMode"
_BACKEND = "BackendSelect"
_libraries: list[Any] = []  # torch removes the kernels of a library that is garbage collected
_attached: set[str] = set()  # operators with kernels that report them
_STARTS = (
    (_thread, "start_new_thread"),
    (_thread, "start_joinable_thread"),
    (threading, "_start_new_thread"),
    (threading, "_start_joinable_thread"),
)


def attach(forbids: tuple[str, ...]) -> None:
    """Give each operator that these names forbid a kernel that reports it, once in a process."""
    if key() is None:
        return
    backend = dispatch_key(_BACKEND) if takes_keyset() else None
    for operator in set(forbidden_operators(forbids)) - _attached:
        _attached.add(operator)
        for space, overload in _overloads(operator):
            wrap_calls_by_key(overload, partial(_reporting, operator=operator))
            _library(space).impl(overload, _kernel(overload, operator), _KEY)
            if backend is None or not has_arguments(overload) or overload.has_kernel_for_dispatch_key(backend):
                continue
            _library(space).impl(overload, _kernel_below(overload, operator, backend), _BACKEND, with_keyset=True)


def _overloads(operator: str) -> Iterator[tuple[str, Any]]:
    space, _, name = operator.rpartition("::")
    packet = getattr(getattr(torch.ops, space or "aten"), name)
    for overload in packet.overloads():
        yield space or "aten", getattr(packet, overload)


def switch_key(on: bool) -> bool:
    """Switch the key on or off, in this thread and in those that it starts; returns whether it was on."""
    if key() is None:
        return False
    before = is_key_included(key())
    include_key(key(), on)
    return before


@cache
def key() -> Any:
    """The key, which operators without a kernel for it pass through; None for a torch that does not have it."""
    found, library = pass_through(_KEY)
    if found is not None:
        _libraries.append(library)
    return found


@cache
def _library(space: str) -> torch.library.Library:
    _libraries.append(torch.library.Library(space, "IMPL"))
    return _libraries[-1]


def _kernel(overload: Any, operator: str) -> Callable:
    without = DispatchKeySet(key())

    def kernel(*args, **kwargs):
        report(operator)
        with exclude_keys(without):
            return overload(*args, **kwargs)

    return kernel


def _kernel_below(overload: Any, operator: str, own: Any) -> Callable:
    redispatch = type(overload).redispatch  # not the replaced one, which reports

    def kernel(keys, *args, **kwargs):
        report(operator)
        return redispatch(overload, keys.remove(own), *args, **kwargs)

    return kernel


def _reporting(function: Callable, operator: str) -> Callable:
    """The function, which runs one operator's kernel for keys of the caller's choice, preceded by a report."""

    def run(*args, **kwargs):
        report(operator)
        return function(*args, **kwargs)

    return run


# ---- functions of torch and Python that would bypass the key


@cache
def guard() -> None:
    """Replace the functions that start a thread, switch the key, start another runtime of torch, or lead to its
    dispatch modes."""
    if key() is None:
        return
    for place, name in _STARTS:
        _replace(place, name, _starting)
    for name in SWITCHES:
        _replace(NATIVE, name, _switching)
    for name in RUNTIMES:
        _replace(NATIVE, name, _running)
    for name in LOOKUPS:
        _replace(NATIVE, name, _looking_up)
    for place in MODE_PLACES:
        for name in MODES:
            _replace(place, name, partial(_asked_by_tested_code, GRADER_STATE))
    for place, name in EXPORTS:
        _replace(place, name, partial(_asked_by_tested_code, OTHER_RUNTIME))


def _replace(place: Any, name: str, make: Callable[[Any], Callable]) -> None:
    original = getattr(place, name, None)
    if original is not None:
        setattr(place, name, make(original))


def _starting(original: Any) -> Callable:
    def start(function, *args, **kwargs):
        modes = active_modes()

        def run(*inner, **named):
            include_key(key(), True)
            activate_modes(modes)
            return function(*inner, **named)

        return original(run, *args, **kwargs)

    return start


def _switching(original: Any) -> Callable:
    forces = original is force_keys

    def switch(*args, **kwargs):
        values = [*args, *kwargs.values()]
        sets = [value for value in values if isinstance(value, DispatchKeySet)]
        if sets:
            concerns_key = any(found.has(key()) for found in sets) != forces
        else:
            concerns_key = any(str(value).rpartition(".")[2] in (_KEY, _BACKEND) for value in values)
        if concerns_key:
            report(OTHER_RUNTIME, at_import=True)
        return original(*args, **kwargs)

    return switch


def _running(original: Any) -> Callable:
    def run(*args, **kwargs):
        report(OTHER_RUNTIME, at_import=True)
        return original(*args, **kwargs)

    return run


def _asked_by_tested_code(name: str, original: Any) -> Callable:
    def run(*args, **kwargs):
        if is_asked_by_tested_code():
            report(name, at_import=True)
        return original(*args, **kwargs)

    return run


def _looking_up(original: Any) -> Callable:
    def look_up(name, *args):
        found, operator = original(name, *args), str(name).removeprefix("aten::")
        if operator not in _attached or found is None:
            return found
        if isinstance(found, tuple):
            return found[0], _reporting(found[1], operator), *found[2:]
        return _Handle(found, operator)

    return look_up


class _Handle:
    """Torch's handle of an operator; running the operator through it is reported."""

    def __init__(self, handle: Any, operator: str) -> None:
        self._handle, self._operator = handle, operator

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._handle, name)
        return _reporting(found, self._operator) if name.endswith("_boxed") else found
