"""How a process ended, in words."""

from __future__ import annotations

import signal


def in_words(status: int) -> str:
    """An exit status as subprocess tells it: negative for a signal."""
    if status >= 0:
        return f"it exited with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    known = {"SIGSEGV": "a crash inside native code (segmentation fault)", "SIGKILL": "it was killed (SIGKILL), perhaps for want of memory"}
    return known.get(name, f"it was ended by {name}")
