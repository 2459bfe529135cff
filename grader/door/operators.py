"""Sees torch's operators where torch carries them out: below all that Python is told of a call, and so below what Python code can go around.

`torch.ops`, `DisableTorchFunction` and compiled functions call an operator without telling a TorchFunctionMode. Torch's dispatcher has a key that
is there for tests of such things: while it is switched on, an operator with a kernel for this key comes to that kernel first, and all others go
their way at no cost. It is switched on for one thread; threads that begin meanwhile switch it on for themselves.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache
from types import FrameType
from typing import Any

import torch

from ..names import bare, forbidden

Notice = Callable[[str], None]

_KEY = "TESTING_ONLY_GenericMode"
_listening: list[tuple[frozenset[str], Notice]] = []
_kept: list[Any] = []  # a library's kernels go with it
_seen: set[str] = set()  # operators that have our kernel


@contextlib.contextmanager
def noticing(names: frozenset[str], notice: Notice) -> Iterator[None]:
    """While this lasts, `notice` is told of each operator with one of these names that is about to run, however it was called."""
    key = _key()
    if key is None or not _attached(names):
        yield
        return
    listener, profile = (names, notice), threading.getprofile()
    _listening.append(listener)
    threading.setprofile(_in_a_new_thread)  # type: ignore[arg-type]  # what it returns is of no use to anybody
    before = torch._C._dispatch_tls_is_dispatch_key_included(key)
    torch._C._dispatch_tls_set_dispatch_key_included(key, True)
    try:
        yield
    finally:
        torch._C._dispatch_tls_set_dispatch_key_included(key, before)
        threading.setprofile(profile)  # type: ignore[arg-type]  # None is what it was
        _listening.remove(listener)


@cache
def _key() -> Any:
    """The key, with a way through for every operator; None for a torch that does not know how."""
    try:
        key = torch._C._parse_dispatch_key(_KEY)
        library = torch.library.Library("_", "IMPL")
        library.fallback(torch.library.fallthrough_kernel, _KEY)
    except (AttributeError, RuntimeError, TypeError):
        return None
    _kept.extend([library, torch.library.Library("aten", "IMPL")])
    return key


@cache
def _spellings() -> dict[str, set[str]]:
    """Bare name → the operators that it may stand for."""
    found: dict[str, set[str]] = {}
    for whole in torch._C._dispatch_get_all_op_names():
        space, _, rest = whole.partition("::")
        if space == "aten":
            operator = rest.partition(".")[0]
            found.setdefault(bare(operator), set()).add(operator)
    return found


@cache
def _attached(names: frozenset[str]) -> int:
    """Attach our kernel to the operators of these names, once in a process; how many there are."""
    operators = {operator for name in names for operator in _spellings().get(bare(name), ())}
    for operator in sorted(operators - _seen):
        packet = getattr(torch.ops.aten, operator)
        for overload in packet.overloads():
            called = getattr(packet, overload)
            _kept[1].impl(called, _kernel(called, operator), _KEY)
    _seen.update(operators)
    return len(operators)


def _kernel(called: Any, operator: str) -> Callable:
    without = torch._C.DispatchKeySet(_key())

    def kernel(*args, **kwargs):
        for names, notice in tuple(_listening):
            if name := forbidden(operator, names):
                notice(name)
        with torch._C._ExcludeDispatchKeyGuard(without):
            return called(*args, **kwargs)

    return kernel


def _in_a_new_thread(frame: FrameType, event: str, argument: Any) -> None:
    """The first thing that a thread begun meanwhile does."""
    sys.setprofile(None)
    torch._C._dispatch_tls_set_dispatch_key_included(_key(), True)
