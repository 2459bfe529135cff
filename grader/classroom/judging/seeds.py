"""Which examples a submission meets: its own, drawn from what it holds and the seed that the instructor names.

The seed of a plain test run is known to everybody who has the kit, so the answers to it could be written down and handed in. Whoever writes
answers into a submission changes its content, and with it the examples. The same content meets the same examples on every machine and day,
and a copy of it meets them too.
"""

from __future__ import annotations

import hashlib


def submission_seed(seed: int, digest: str) -> int:
    """For a submission of this content; too large a space to search for a content with a seed of one's choice."""
    return int.from_bytes(hashlib.sha256(f"{seed} {digest}".encode()).digest()[:7], "big")
