"""Decides what is graded of a submission: which chapters need no run, and by which seeds the others are graded.

A chapter needs no run if a chapter with the same text was judged before, in this or another submission. All that the
tests of a chapter find depends on its text, and on nothing else that a person submits: the earlier chapters are the
reference's. So the results are the same, with all that a learner reads. The gradebook keeps the results of other seeds,
kits and libraries apart. A result that could be another one tomorrow is not shared: a timeout, a lost process, a test
that did not run, an import that failed.

A seed draws an exercise's own examples, besides the common ones that every run draws. Anybody who has the kit can find
the common examples, so a submission could contain the answers to them. So the seed depends on a secret of the
instructor's, which the gradebook stores. The exercise's own code chooses one of a few sets of examples: equal code gets
equal examples, today and tomorrow, and what the reference answers to them can be recorded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from grader.classroom.intake.submissions import Submission, hash_content
from grader.course.syllabus import Exercise
from grader.verdict.last_verdicts import code_fingerprint
from grader.verdict.results import ExerciseResult
from grader.verdict.summary import Verdict

EXAMPLE_SETS = 16  # for each exercise


def exercise_seed(secret: str, seed: int, exercise: str, content: str) -> int:
    """The seed for an exercise with this content (a fingerprint of its code); `seed` is the instructor's `--seed`."""
    return pool_of_seeds(secret, seed, exercise)[_hash(secret, seed, exercise, "content", content) % EXAMPLE_SETS]


def pool_of_seeds(secret: str, seed: int, exercise: str) -> tuple[int, ...]:
    """All seeds of an exercise: 56 bits of a hash each, and never 0, which means the common examples alone."""
    return tuple(_hash(secret, seed, exercise, "set", number) + 1 for number in range(EXAMPLE_SETS))


def _hash(*parts: str | int) -> int:
    return int.from_bytes(hashlib.sha256("\0".join(map(str, parts)).encode()).digest()[:7], "big")


def hash_chapter(submission: Submission, module: str) -> str:
    """The chapter's name, and a hash of its text. A missing chapter and one that cannot be read have a hash, too."""
    texts = (submission.sources, submission.broken)
    sources, broken = ({name: text for name, text in one.items() if name == module} for one in texts)
    return f"{module} {hash_content(sources, broken, '')}"


@dataclass(frozen=True)
class Plan:
    """What a run grades of one submission, and the results that it need not find."""

    seeds: dict[str, int]  # of the exercises to grade
    known: list[ExerciseResult]
    chapters: dict[str, str]  # by module: its hash

    def complete(self, verdict: Verdict) -> Verdict:
        """The verdict on all of the submission, from that on its part. That of an interrupted run is on all of it."""
        results = {result.exercise.name: result for result in (*self.known, *verdict.results)}
        return Verdict(list(results.values()), verdict.broken, verdict.newly_passed, verdict.notes)

    def chapters_to_share(self, verdict: Verdict) -> list[str]:
        """The hashes of the chapters whose results count for other submissions too."""
        if verdict.notes:  # something unusual happened
            return []
        unstable = {result.exercise.module for result in verdict.results if not _is_stable(result)}
        unstable |= set(verdict.broken)
        return [chapter for module, chapter in self.chapters.items() if module not in unstable]


class ResultStore(Protocol):
    """The gradebook."""

    secret: str

    def equal_results(self, chapter: str, exercises: Sequence[Exercise]) -> list[ExerciseResult]: ...


class Planner:
    """Plans the grading of the submissions of one run."""

    def __init__(self, book: ResultStore, exercises: Sequence[Exercise], seed: int) -> None:
        self.book, self.seed = book, seed
        self.by_module: dict[str, list[Exercise]] = {}
        for exercise in exercises:
            self.by_module.setdefault(exercise.module, []).append(exercise)

    def plan(self, submission: Submission) -> Plan:
        plan = Plan({}, [], {})
        for module, exercises in self.by_module.items():
            chapter = plan.chapters[module] = hash_chapter(submission, module)
            if results := self.book.equal_results(chapter, exercises):
                plan.known.extend(results)
            else:
                plan.seeds.update({exercise.name: self.seed_of(exercise, submission) for exercise in exercises})
        return plan

    def seed_of(self, exercise: Exercise, submission: Submission) -> int:
        code = code_fingerprint(submission.sources.get(exercise.module, ""), exercise.name)
        return exercise_seed(self.book.secret, self.seed, exercise.name, code)


def _is_stable(result: ExerciseResult) -> bool:
    """Whether the result depends on the submitted code only, and not on how busy the machine was."""
    outcomes = {test.outcome for test in result.tests}
    is_complete = bool(outcomes) and not result.partial and not result.missing_weight
    return is_complete and outcomes <= {"passed", "failed", "todo"} and "timeout" not in result.replaced.values()
