"""One request at a time uses a model, in the order in which they came."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Iterator


class Closed(Exception):
    """The server stops, so there are no more turns."""


class Turns:
    """A fair lock. With threading.Lock, a text that is written would get it again and again, and another tab would wait until its end."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: deque[object] = deque()  # the first one has the turn
        self._closed = False

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for a turn and keep it for the `with` block. Closed if the server stops."""
        mine = object()
        with self._changed:
            self._queue.append(mine)
            self._changed.wait_for(lambda: self._closed or self._queue[0] is mine)
            if self._closed:
                self._leave(mine)
                raise Closed
        try:
            yield
        finally:
            with self._changed:
                self._leave(mine)

    def close(self, seconds: float) -> bool:
        """Give no more turns, and wait for the end of the present one. Returns whether it has ended."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._queue, seconds)

    def _leave(self, mine: object) -> None:
        self._queue.remove(mine)
        self._changed.notify_all()
