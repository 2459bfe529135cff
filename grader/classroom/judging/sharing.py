"""Decides which chapters of a submission need no run, because a chapter with the same text was judged before, in this or another submission.

All that the tests of a chapter find depends on its text, and on nothing else that a person submits: the earlier chapters are the reference's.
So the results are the same, with all that a learner reads. The gradebook keeps the results of other seeds, kits and libraries apart.
A result that could be another one tomorrow is not shared: a timeout, a lost process, a test that did not run, an import that failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from grader.classroom.intake.submission_content import hash_content
from grader.classroom.intake.submissions import Submission
from grader.classroom.judging.seeds import exercise_seed
from grader.course.syllabus import Exercise
from grader.verdict.last_verdicts import code_fingerprint
from grader.verdict.results import ExerciseResult
from grader.verdict.summary import Verdict


def hash_chapter(submission: Submission, module: str) -> str:
    """The chapter's name, and a hash of its text. A missing chapter and one that cannot be read have a hash, too."""
    sources, broken = ({name: text for name, text in texts.items() if name == module} for texts in (submission.sources, submission.broken))
    return f"{module} {hash_content(sources, broken, '')}"


@dataclass(frozen=True)
class Plan:
    """What a run grades of one submission, and the results that it need not find."""

    seeds: dict[str, int]  # of the exercises to grade
    known: list[ExerciseResult]
    chapters: dict[str, str]  # by module: its hash

    def complete(self, verdict: Verdict) -> Verdict:
        """The verdict on all of the submission, from the one on its part. An interrupted run has a verdict on all of it: no points."""
        results = {result.exercise.name: result for result in (*self.known, *verdict.results)}
        return Verdict(list(results.values()), verdict.broken, verdict.newly_passed, verdict.notes)

    def chapters_to_share(self, verdict: Verdict) -> list[str]:
        """The hashes of the chapters whose results count for other submissions too."""
        if verdict.notes:  # something unusual happened
            return []
        unstable = {result.exercise.module for result in verdict.results if not _is_stable(result)}
        return [chapter for module, chapter in self.chapters.items() if module not in unstable and module not in verdict.broken]


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
    return bool(outcomes) and outcomes <= {"passed", "failed", "todo"} and not result.partial and not result.missing_weight and "timeout" not in result.replaced.values()
