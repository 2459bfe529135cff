"""The seed that draws a submission's test examples, computed from its content and the instructor's seed.

Everybody who has the kit can find the seed of a plain test run, so a submission could contain the answers to its examples. But answers that are
added to a submission change its content, and with it the examples. Equal content gets equal examples, on every machine and every day.
"""

from __future__ import annotations

import hashlib


def submission_seed(seed: int, digest: str) -> int:
    """The seed for this content: 56 bits of a hash, too many to search for content that gets a chosen seed."""
    return int.from_bytes(hashlib.sha256(f"{seed} {digest}".encode()).digest()[:7], "big")
