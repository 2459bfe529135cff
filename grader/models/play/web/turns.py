"""One request at a time uses a model, in the order in which they came."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Iterator


class Turns:
    """A fair lock. With threading.Lock, a text that is written would get it again and again, and another tab would wait
    until its end."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: deque[object] = deque()  # the first one has the turn

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for a turn and keep it for the `with` block."""
        mine = object()
        with self._changed:
            self._queue.append(mine)
            self._changed.wait_for(lambda: self._queue[0] is mine)
        try:
            yield
        finally:
            with self._changed:
                self._queue.remove(mine)
                self._changed.notify_all()
