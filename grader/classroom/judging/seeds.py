"""Decides by which seed each exercise of a submission is graded.

A seed draws an exercise's own examples, besides the common ones that every run draws. Anybody who has the kit can find
the common examples, so a submission could contain the answers to them. So the seed depends on a secret of the
instructor's, which the gradebook stores. The exercise's own code chooses one of a few sets of examples: equal code gets
equal examples, today and tomorrow, and what the reference answers to them can be recorded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from grader.classroom.intake.submissions import Submission
from grader.course.syllabus import Exercise
from grader.verdict.last_verdicts import code_fingerprint

EXAMPLE_SETS = 16  # for each exercise


def seeds_of(submission: Submission, exercises: Iterable[Exercise], secret: str, seed: int) -> dict[str, int]:
    """The seed of each exercise; `seed` is the instructor's `--seed`."""
    found = {}
    for exercise in exercises:
        code = code_fingerprint(submission.sources.get(exercise.module, ""), exercise.name)
        found[exercise.name] = exercise_seed(secret, seed, exercise.name, code)
    return found


def exercise_seed(secret: str, seed: int, exercise: str, content: str) -> int:
    """The seed for an exercise with this content (a fingerprint of its code)."""
    return pool_of_seeds(secret, seed, exercise)[_hash(secret, seed, exercise, "content", content) % EXAMPLE_SETS]


def pool_of_seeds(secret: str, seed: int, exercise: str) -> tuple[int, ...]:
    """All seeds of an exercise: 56 bits of a hash each, and never 0, which means the common examples alone."""
    return tuple(_hash(secret, seed, exercise, "set", number) + 1 for number in range(EXAMPLE_SETS))


def _hash(*parts: str | int) -> int:
    return int.from_bytes(hashlib.sha256("\0".join(map(str, parts)).encode()).digest()[:7], "big")
