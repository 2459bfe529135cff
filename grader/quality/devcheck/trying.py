"""Runs one exercise's suite on many implementations, in a process forked from one that has loaded everything."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass

from grader.course.syllabus import load_syllabus
from grader.execution.target import Target
from grader.execution.worker import WorkerPool
from grader.processes.job import Job
from grader.processes.report import Report
from grader.quality.devcheck.subjects import Subject
from grader.runner.judging import judge_of
from grader.verdict.recordings import course_recordings
from grader.verdict.replay import cache_replies
from grader.verdict.trial import Trial

BETWEEN_SECONDS = 300.0  # that may pass between two tests; each call has its own limit
SEARCH_SECONDS = 200.0  # for known mistakes: on a loaded machine, too, it must find what it would find


@dataclass(frozen=True)
class TryJob(Job):
    exercise: str
    in_worker: bool
    seed: int
    subjects: tuple[Subject, ...]


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


def try_implementations(job: TryJob, report: Report, fork: bool = True) -> int:
    """Send the results of the job's subjects. `fork`: is forking safe here?"""
    pool = WorkerPool(fork=fork, warm=True)
    with cache_replies():
        tried = [_try(job, subject, pool, report) for subject in job.subjects]
    pool.close()
    report.message(result=[asdict(each) for each in tried])
    return 0


def _try(job: TryJob, subject: Subject, pool: WorkerPool, report: Report) -> Tried:
    exercise = load_syllabus().exercise(job.exercise)
    target = Target(f"{subject.kind} {subject.name}", None, {exercise.module: subject.text})
    judge = judge_of(Trial(target, job.in_worker, seed=job.seed, pool=pool), course_recordings(), search_seconds=SEARCH_SECONDS)
    run, tests = judge.run, judge.tests_of(exercise)
    began = time.process_time()
    for test in tests:
        report.extend_deadline(BETWEEN_SECONDS)
        judge.runner.run_test(test)
    spent = (time.process_time() - began) * 1000
    run.trial.close()
    if subject.kind == "degenerate":
        run.trial.records.clear()  # without records no known mistake is looked for
    run.conclude()
    result = run.results.get(exercise.name)
    if result is None:
        return Tried(subject.kind, subject.name, 0.0, "todo", {}, {}, [], [], spent)
    return Tried(
        subject.kind, subject.name, result.earned, result.outcome,
        {test.name: test.outcome for test in result.tests},
        {test.name: test.message for test in result.tests if test.outcome not in ("passed", "todo")},
        [mistake.id for mistake in result.diagnosis.mistakes] if result.diagnosis else [], result.forbidden, spent,
    )  # fmt: skip
