"""Signals as events of the watch: quit, a resized window, Control-Z."""

from __future__ import annotations

import contextlib
import queue
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def forward_signals(events: queue.SimpleQueue, screen: bool) -> Iterator[None]:
    """Put an event into the queue for each signal, until the context ends."""
    events_by_signal = {"SIGTERM": "quit", "SIGHUP": "quit", "SIGINT": "quit"} | ({"SIGWINCH": "resized", "SIGTSTP": "suspended"} if screen else {})
    before = {}
    for name, event in events_by_signal.items():
        number = getattr(signal, name, None)
        if number is not None:
            before[number] = signal.signal(number, lambda *_, event=event: events.put((event,)))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
