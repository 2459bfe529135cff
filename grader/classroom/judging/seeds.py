"""The seed that draws a submission's test examples, computed from its content and the instructor's seed.

Every run draws the same common examples, which anybody who has the kit can find, so a submission could contain the answers to them. A submission
therefore gets some more examples, which its seed draws. Answers that are added to a submission change its content, and with it these examples. Equal
content gets equal examples, on every machine and every day.
"""

from __future__ import annotations

import hashlib


def submission_seed(seed: int, digest: str) -> int:
    """The seed for this content: 56 bits of a hash, too many to search for content that gets a chosen seed."""
    return int.from_bytes(hashlib.sha256(f"{seed} {digest}".encode()).digest()[:7], "big")
