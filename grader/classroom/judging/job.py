"""What a judge is asked: one submission, and what of it to grade."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GradeJob:
    sources: dict[str, str]
    unread: dict[str, str]  # chapters that are there and cannot be read, and why
    exercises: list[str]
    seed: int
    seconds: float  # for all of it
    in_worker: bool = True
    whole: bool = False  # earlier chapters are the submission's own too
