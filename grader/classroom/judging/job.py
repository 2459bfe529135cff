"""The job of the server that grades: one submission, and which exercises of it to grade."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from grader.processes.job import Job, moved_to_worker


@dataclass(frozen=True)
class GradeJob(Job):
    sources: dict[str, str]
    unread: dict[str, str]  # chapters that are there and cannot be read, and why
    exercises: list[str]
    seed: int
    seconds: float  # for all of it
    in_worker: bool = True
    whole: bool = False  # earlier chapters are the submission's own too
    seeds: dict[str, int] = field(default_factory=dict)  # of exercises whose own examples are drawn by another seed than `seed`

    def after_crash(self, late: bool = False) -> Self | None:
        return moved_to_worker(self)
