"""What the system tells a watch: it is to end, the window has another size, somebody pressed Control-Z."""

from __future__ import annotations

import contextlib
import queue
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def signals(events: queue.SimpleQueue, screen: bool) -> Iterator[None]:
    """Put each of them among the events, until the end."""
    told = {"SIGTERM": "stop", "SIGHUP": "stop", "SIGINT": "stop"} | ({"SIGWINCH": "resized", "SIGTSTP": "suspended"} if screen else {})
    before = {}
    for name, event in told.items():
        number = getattr(signal, name, None)
        if number is not None:
            before[number] = signal.signal(number, lambda *_, event=event: events.put((event,)))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
