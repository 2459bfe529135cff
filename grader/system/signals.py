"""Handlers of signals, set and read often: the functions of `signal` turn each number and handler into an enum, which
takes as long as the rest of them."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

try:
    from _signal import getsignal as _get  # type: ignore[import-not-found]
    from _signal import signal as _set
except ImportError:  # another Python
    _get, _set = signal.getsignal, signal.signal

Handler = Callable[[int, Any], Any] | int | None


def get_handler(number: int) -> Handler:
    return _get(number)


def set_handler(number: int, handler: Handler) -> Handler:
    """Set a handler; the one before. Only in the main thread."""
    return _set(number, handler)
