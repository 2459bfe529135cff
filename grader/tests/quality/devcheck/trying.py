"""Runs an exercise's suite on many implementations, in a process forked from a server that has loaded everything.

`python -m grader.tests.quality.devcheck.trying [--prestarted]` is that server; pool.py starts it.
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, field, replace
from functools import partial

from grader.course.syllabus import load_syllabus
from grader.execution.target import Target
from grader.execution.worker import WorkerPool
from grader.processes.job import Job
from grader.processes.report import Report
from grader.processes.server_process import main
from grader.processes.service import Runner, Service
from grader.runner.graded_tests import NoTests
from grader.runner.judging import Judge, judge_of
from grader.tests.quality.devcheck.each_example import EachExampleJob, run_each_example
from grader.tests.quality.devcheck.subjects import Subject
from grader.verdict.examples import only_generate
from grader.verdict.recordings import course_recordings
from grader.verdict.replay import cache_replies
from grader.verdict.results import ExerciseResult
from grader.verdict.trial import Trial

TEST_SECONDS = 300.0  # for one test; each call has its own limit
SEARCH_SECONDS = 200.0  # for known mistakes; on a loaded machine, too, the search finds what it would find
MAX_REQUEST_BYTES = 1 << 26


@dataclass(frozen=True)
class TryJob(Job):
    exercise: str
    in_worker: bool
    seed: int
    subjects: tuple[Subject, ...]
    quick: bool = False  # do not look for the smallest example of a failure, nor for known mistakes
    until_failure: bool = False  # the same, and stop at the first failure


@dataclass(frozen=True)
class Tried:
    """The result of one implementation."""

    kind: str
    name: str
    earned: float
    outcome: str
    outcomes: dict[str, str]  # test → outcome
    messages: dict[str, str]  # test → message, of those not passed
    names: list[str]  # of the known mistakes that the diagnosis names
    forbidden: list[str]
    milliseconds: float  # of processor time, which depends less on other load than the clock does
    # what a learner reads about the failed tests, without the own line of code that `at` quotes
    shown: list[str] = field(default_factory=list)

    @property
    def failed_tests(self) -> dict[str, str]:
        """The tests that did not pass, each with its message."""
        failed = [test for test, outcome in self.outcomes.items() if outcome not in ("passed", "todo")]
        return {test: self.messages.get(test, "") for test in failed}


def try_implementations(job: TryJob, report: Report, fork: bool = True) -> int:
    """Send the results of the job's subjects. `fork`: is forking safe here?"""
    pool = WorkerPool(fork=fork, warm=True)
    try:
        with cache_replies():
            tried = [_try(job, subject, pool, report) for subject in job.subjects]
    except NoTests as problem:
        report.finish(trouble=str(problem))
    finally:
        pool.close()
    report.message(result=[asdict(each) for each in tried])
    return 0


def _try(job: TryJob, subject: Subject, pool: WorkerPool, report: Report) -> Tried:
    exercise = load_syllabus().exercise(job.exercise)
    target = Target(f"{subject.kind} {subject.name}", None, subject.course or {exercise.module: subject.text})
    trial = Trial(target, job.in_worker, whole=bool(subject.course), seed=job.seed, pool=pool, sends_ahead=True)
    judge = judge_of(trial, course_recordings(), search_seconds=SEARCH_SECONDS)
    began = time.process_time()
    _run_tests(judge, job, report)
    milliseconds = (time.process_time() - began) * 1000
    trial.close()
    if subject.kind == "trivial" or job.quick or job.until_failure:
        trial.records.clear()  # without records no known mistake is looked for
    judge.run.conclude()
    result = judge.run.results.get(exercise.name) or ExerciseResult(exercise)
    failed = {test.name: test.message for test in result.tests if test.outcome not in ("passed", "todo")}
    names = [mistake.id for mistake in result.diagnosis.mistakes] if result.diagnosis else []
    outcomes = {test.name: test.outcome for test in result.tests}
    rows = [row for test in result.failures if test.details for row in replace(test.details, where="").rows()]
    shown = [*result.forbidden, *filter(None, [result.written]), *dict.fromkeys(row.text for row in rows)]
    return Tried(
        subject.kind, subject.name, result.earned, result.outcome, outcomes, failed, names, result.forbidden,
        milliseconds, shown,
    )  # fmt: skip


def _run_tests(judge: Judge, job: TryJob, report: Report) -> None:
    for test in judge.tests_of(load_syllabus().exercise(job.exercise)):
        report.extend_deadline(TEST_SECONDS)
        if job.quick or job.until_failure:
            only_generate(test.function)
        if judge.runner.run_test(test).outcome != "passed" and job.until_failure:
            return


def service(fork: bool, options: list[str]) -> Service:
    runners: dict[type[Job], Runner] = {
        TryJob: partial(try_implementations, fork=fork), EachExampleJob: run_each_example,
    }  # fmt: skip
    return Service(runners, run_seconds=math.inf, longest_request=MAX_REQUEST_BYTES)


if __name__ == "__main__":
    main("grader.tests.quality.devcheck.trying", service)
