"""How busy this machine is. Time limits for tested code are on the clock, and on a busy machine right code takes longer
by the clock."""

from __future__ import annotations

import os

PROCESSORS = os.cpu_count() or 1
USUAL_LOAD = 2.0  # processes for each processor that the limits have room for anyway
MOST = 6.0


def slowdown() -> float:
    """The factor by which a time limit is longer now: 1, or more where several times as many processes want to run as
    there are processors."""
    if not hasattr(os, "getloadavg"):  # Windows
        return 1.0
    return min(MOST, max(1.0, os.getloadavg()[0] / PROCESSORS / USUAL_LOAD))
