"""Calls a function for each signal that the watch handles: quit, a resized window, Control-Z."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator, Mapping


@contextlib.contextmanager
def forward_signals(handlers: Mapping[str, Callable[[], None]]) -> Iterator[None]:
    """Call the handler of each named signal that this system has, until the context ends."""
    before = {}
    for name, handler in handlers.items():
        number = getattr(signal, name, None)
        if number is not None:
            before[number] = signal.signal(number, lambda *_, handler=handler: handler())
    try:
        yield
    finally:
        for number, earlier_handler in before.items():
            signal.signal(number, earlier_handler)
