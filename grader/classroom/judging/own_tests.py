"""Grades a learner's own tests of exercises, which run on correct versions and on known mistakes, in the sandbox.

The points are the share of the known mistakes that the tests find, none if they refuse a correct version.
"""

from __future__ import annotations

import random
import time
from contextlib import closing

from grader.classroom.judging.dispatch import GradeJob
from grader.course.source import SourceProblem
from grader.course.syllabus import Exercise, load_syllabus
from grader.execution.late_calls import slowdown
from grader.execution.worker_pool import WorkerPool
from grader.own_tests.own_file import asserts_something, check_tests, module_of_tests
from grader.own_tests.refusals import Refusal, describe_refusal
from grader.own_tests.trying import SECONDS, Outcome, try_versions
from grader.own_tests.versions import Version, versions_of
from grader.processes.report import CONCLUDING_SECONDS, Report
from grader.verdict.results import ExerciseResult, Failure, TestResult, Verdict

ACCEPTED, FOUND = "correct_versions_are_accepted", "known_mistakes_are_found"
PROMISES = {
    ACCEPTED: "Your tests accept every correct version of the exercise.",
    FOUND: "Your tests find every known mistake in the exercise.",
}


def judge_own_tests(job: GradeJob, report: Report, pool: WorkerPool) -> Verdict:
    """The verdict on the tests of each exercise of the job. The pool starts workers that run such tests."""
    until = time.monotonic() + job.seconds
    exercises = map(load_syllabus().exercise, job.exercises)
    return Verdict([_judge(exercise, job, report, pool, until) for exercise in exercises])


def _judge(exercise: Exercise, job: GradeJob, report: Report, pool: WorkerPool, until: float) -> ExerciseResult:
    module = module_of_tests(exercise)
    file, text = f"{module}.py", job.sources.get(module)
    if text is None and module not in job.unread:
        return ExerciseResult(exercise, [TestResult(ACCEPTED, "todo", 0.0, 1.0, message=f"{file} was not handed in")])
    try:
        if text is None:
            raise SourceProblem(job.unread[module])
        check_tests(text, file)
    except SourceProblem as problem:
        return ExerciseResult(exercise, [_failed(ACCEPTED, str(problem))])
    reference, *others = versions_of(exercise)
    # A test that could compute from the clock which versions are correct would need to know their order.
    random.Random(job.seeds[exercise.name]).shuffle(others)
    outcomes: dict[Version, Outcome] = {}
    report.extend_deadline(SECONDS * slowdown() + CONCLUDING_SECONDS)
    with closing(try_versions(pool, exercise, text, file, [reference, *others], at_once=1)) as tried:
        for version, outcome in tried:
            outcomes[version] = outcome
            if version.is_correct and (refusal := describe_refusal(version, outcome, text)):
                return ExerciseResult(exercise, [_refused(refusal, file)])
            if time.monotonic() > until:
                break
            report.extend_deadline(SECONDS * slowdown() + CONCLUDING_SECONDS)
    return _count(exercise, text, outcomes)


def _count(exercise: Exercise, text: str, outcomes: dict[Version, Outcome]) -> ExerciseResult:
    """The result of tests that refuse no correct version. What was not tried is not found."""
    mistakes = [version for version in versions_of(exercise) if not version.is_correct]
    missed = [version for version in mistakes if version not in outcomes or outcomes[version].accepts]
    found, through = len(mistakes) - len(missed), [version for version in missed if version in outcomes]
    tests = [TestResult(FOUND, "passed", 0.0, float(found), PROMISES[FOUND])] if found else []
    says = f"Your tests find {found} of {len(mistakes)} known mistakes."
    if not asserts_something(text):
        says += " They assert nothing, so they find only code that raises an error."
    elif through:
        says += f" The first one that gets through: {through[0].says}"
    if len(through) < len(missed):
        says += f" Time ran out before {len(missed) - len(through)} of them were tried."
    return ExerciseResult(exercise, [*tests, *([_failed(FOUND, says, weight=len(missed))] if missed else [])])


def _failed(name: str, message: str, where: str = "", weight: float = 1.0) -> TestResult:
    words = Failure(PROMISES[name], message=message, where=where)
    return TestResult(name, "failed", 0.0, float(weight), PROMISES[name], message, details=words, leads=True)


def _refused(refusal: Refusal, file: str) -> TestResult:
    example = f" for {refusal.example}" if refusal.example else ""
    says = f"It says: {refusal.said}" if refusal.said else ""
    message = " ".join(filter(None, [f"{refusal.happened}{example}.", refusal.advice, says]))
    where = f"{file}, line {refusal.line}:  {refusal.code}" if refusal.line else ""
    return _failed(ACCEPTED, message, where)
