"""Sees torch's operators in torch's dispatcher, which runs each operator whatever its caller is: Python, a thread, autograd, or a compiled graph.

The dispatcher has a key for tests of such things: while it is on, an operator with a kernel for this key runs that kernel first; all others
are not slowed down. Only forbidden operators get a kernel. The key is on in one thread; threads that begin meanwhile switch it on too.
Inside of a __torch_dispatch__ torch leaves that key out. A second kernel, for the key that chooses the backend, is there in every thread; but an
operator that torch composes of others never comes so far down. So there are two.
"""

from __future__ import annotations

import _thread
import inspect
import threading
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import torch
from grader.course.torch_operators import OTHER_RUNTIME, forbidden_operators
from grader.execution.forbidden.reports import report

_KEY = "TESTING_ONLY_GenericMode"
_BACKEND = "BackendSelect"
_kept: list[Any] = []  # a library's kernels go with it
_attached: set[str] = set()  # operators that have our kernel
_below: dict[str, torch.library.Library] = {}  # the libraries of the second kernels
_with_two: set[str] = set()
_originals: list[tuple[Any, str, Any]] = []  # functions exchanged here
_include = torch._C._dispatch_tls_set_dispatch_key_included  # before they are exchanged below
_exclude = torch._C._ExcludeDispatchKeyGuard
_STARTS = ((_thread, "start_new_thread"), (_thread, "start_joinable_thread"), (threading, "_start_new_thread"), (threading, "_start_joinable_thread"))
_LOOKUPS = ("_get_operation_overload", "_dispatch_find_schema_or_throw")  # their answers run one kernel of an operator
_SWITCHES = (
    "_dispatch_tls_set_dispatch_key_included", "_dispatch_tls_set_dispatch_key_excluded", "_ExcludeDispatchKeyGuard", "_SetExcludeDispatchKeyGuard",
    "ExcludeDispatchKeyGuard", "_ForceDispatchKeyGuard",
)  # fmt: skip
_RUNTIMES = (  # torch's interpreters that call kernels themselves; all are off unless somebody turns them on
    "_jit_set_llga_enabled", "_jit_to_static_module", "_fuse_to_static_module", "_jit_override_can_fuse_on_cpu", "_jit_override_can_fuse_on_cpu_legacy",
    "_jit_set_te_must_use_llvm_cpu", "_jit_set_texpr_fuser_enabled",
)  # fmt: skip


def attach(forbids: tuple[str, ...]) -> None:
    """Give each operator that these names forbid a kernel that reports it, once in a process."""
    if key() is None:
        return
    for operator in set(forbidden_operators(forbids)) - _attached:
        _attached.add(operator)
        for space, called in _overloads(operator):
            getattr(called, "_handle", None)  # looked up once, before the look-up itself is exchanged
            called._op_dk, called.redispatch = _reporting(called._op_dk, operator), _reporting(called.redispatch, operator)
            _library(space).impl(called, _kernel(called, operator), _KEY)
    if "with_keyset" not in inspect.signature(torch.library.Library.impl).parameters:  # an older torch
        return
    backend = torch._C._parse_dispatch_key(_BACKEND)
    for operator in set(forbidden_operators(forbids)) - _with_two:
        _with_two.add(operator)
        for space, called in _overloads(operator):
            if space not in _below:
                _below[space] = torch.library.Library(space, "IMPL")
            if called._schema.arguments and not called.has_kernel_for_dispatch_key(backend):
                _below[space].impl(called, _kernel_below(called, operator, backend), _BACKEND, with_keyset=True)


def detach() -> None:
    """Take the second kernels away, which would slow down whoever uses these operators afterwards."""
    for library in _below.values():
        library._destroy()
    _below.clear()
    _with_two.clear()


def _overloads(operator: str) -> Iterator[tuple[str, Any]]:
    space, _, name = operator.rpartition("::")
    packet = getattr(getattr(torch.ops, space or "aten"), name)
    for overload in packet.overloads():
        yield space or "aten", getattr(packet, overload)


def switch_key(on: bool) -> bool:
    """Let kernels for the key run in this thread and in those it starts, or no longer; returns what was before."""
    if key() is None:
        return False
    before = torch._C._dispatch_tls_is_dispatch_key_included(key())
    _include(key(), on)
    return before


@cache
def key() -> Any:
    """The key, with a way through for every operator; None for a torch that does not know it."""
    try:
        found = torch._C._parse_dispatch_key(_KEY)
        library = torch._C._dispatch_library("IMPL", "_", _KEY)
        library.fallback_fallthrough(_KEY)
    except (AttributeError, RuntimeError, TypeError):
        return None
    _kept.append(library)
    return found


@cache
def _library(space: str) -> torch.library.Library:
    _kept.append(torch.library.Library(space, "IMPL"))
    return _kept[-1]


def _kernel(called: Any, operator: str) -> Callable:
    without = torch._C.DispatchKeySet(key())

    def kernel(*args, **kwargs):
        report(operator)
        with _exclude(without):
            return called(*args, **kwargs)

    return kernel


def _kernel_below(called: Any, operator: str, own: Any) -> Callable:
    redispatch = type(called).redispatch  # not the one that reports

    def kernel(keys, *args, **kwargs):
        report(operator)
        return redispatch(called, keys.remove(own), *args, **kwargs)

    return kernel


def _reporting(function: Callable, operator: str) -> Callable:
    """The function, which runs one operator's kernel for keys of the caller's choice, after a report."""

    def run(*args, **kwargs):
        report(operator)
        return function(*args, **kwargs)

    return run


# ---- functions of torch and Python that would lead past the key


def guard() -> None:
    """Exchange the functions that start a thread, that switch the key, and that start another runtime of torch's."""
    if _originals or key() is None:
        return
    for place, name in _STARTS:
        _exchange(place, name, _starting)
    for name in _SWITCHES:
        _exchange(torch._C, name, _switching)
    for name in _RUNTIMES:
        _exchange(torch._C, name, _running)
    for name in _LOOKUPS:
        _exchange(torch._C, name, _looking_up)


def unguard() -> None:
    while _originals:
        place, name, original = _originals.pop()
        setattr(place, name, original)


def _exchange(place: Any, name: str, make: Callable[[Any], Callable]) -> None:
    original = getattr(place, name, None)
    if original is not None:
        _originals.append((place, name, original))
        setattr(place, name, make(original))


def _starting(original: Any) -> Callable:
    def start(function, *args, **kwargs):
        def run(*inner, **named):
            _include(key(), True)
            return function(*inner, **named)

        return original(run, *args, **kwargs)

    return start


def _switching(original: Any) -> Callable:
    force = original is getattr(torch._C, "_ForceDispatchKeyGuard", None)

    def switch(*args, **kwargs):
        values = [*args, *kwargs.values()]
        sets = [value for value in values if isinstance(value, torch._C.DispatchKeySet)]
        ours = any(found.has(key()) for found in sets) != force if sets else any(str(value).rpartition(".")[2] in (_KEY, _BACKEND) for value in values)
        if ours:
            report(OTHER_RUNTIME, at_import=True)
        return original(*args, **kwargs)

    return switch


def _running(original: Any) -> Callable:
    def run(*args, **kwargs):
        report(OTHER_RUNTIME, at_import=True)
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
    """The handle of an operator, as torch gives it out; running it is reported."""

    def __init__(self, handle: Any, operator: str) -> None:
        self._handle, self._operator = handle, operator

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._handle, name)
        return _reporting(found, self._operator) if name.endswith("_boxed") else found
