"""The verdict on a submission whose runs end without a verdict twice: no points, and the reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grader.classroom.intake.submissions import Submission
from grader.course.syllabus import load_syllabus
from grader.verdict.results import ExerciseResult, Failure, TestResult
from grader.verdict.summary import Verdict

TEST = "grading_comes_to_an_end"
PROMISE = "The exercise can be graded."
EXPLANATION = "A second process ended in the same way, so the cause is in this submission. Run `headway check` on your machine to find it."
NOTE = "grading was interrupted twice ({why}), so this submission earns no points; `headway regrade NAME` grades it again"


@dataclass(frozen=True)
class InterruptedRun:
    """A run that ended before its verdict."""

    why: str
    killed: bool = False  # from outside: for not answering in time, by the system when memory ran out, or because the server process ended


def zero_verdict(submission: Submission, exercises: Sequence[str], why: str) -> Verdict:
    """No points for each exercise whose chapter was submitted."""
    words = Failure(PROMISE, message=f"Grading was interrupted twice: {why}.", explanation=EXPLANATION)
    test = TestResult(TEST, "error", 0.0, 1.0, PROMISE, words.message, words.explanation, words)
    found = [load_syllabus().exercise(name) for name in exercises]
    results = [ExerciseResult(exercise, [test]) for exercise in found if exercise.module in {*submission.sources, *submission.broken}]
    return Verdict(results, notes=[NOTE.format(why=why)])
