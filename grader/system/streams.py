"""The standard streams of a process."""

from __future__ import annotations

import os


def redirect_to_null(*streams: int) -> None:
    """Redirect these descriptors (by default all three standard streams) to the null device, also for code that writes
    to them directly."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in streams or (0, 1, 2):
        os.dup2(null, stream)
    if null > 2:
        os.close(null)
