"""Chooses the seed that draws an exercise's own examples, besides the common ones that every run draws.

Anybody who has the kit can find the common examples, so a submission could contain the answers to them. An exercise therefore gets some more examples
from one of a few sets. The sets are drawn by seeds that depend on a secret of the instructor's, which the gradebook stores, so that no learner can
prepare answers. The exercise's own code chooses the set: equal code gets equal examples, today and tomorrow. There are few sets, so that what the reference
answers to them can be recorded.
"""

from __future__ import annotations

import hashlib

SETS = 16  # of examples, for each exercise


def exercise_seed(secret: str, seed: int, exercise: str, content: str) -> int:
    """The seed for an exercise with this content (a fingerprint of its code); `seed` is the instructor's `--seed`."""
    return pool_of_seeds(secret, seed, exercise)[_hash(secret, seed, exercise, "content", content) % SETS]


def pool_of_seeds(secret: str, seed: int, exercise: str) -> tuple[int, ...]:
    """All seeds of an exercise: 56 bits of a hash each, and never 0, which means the common examples alone."""
    return tuple(_hash(secret, seed, exercise, "set", number) + 1 for number in range(SETS))


def _hash(*parts: str | int) -> int:
    return int.from_bytes(hashlib.sha256("\0".join(map(str, parts)).encode()).digest()[:7], "big")
