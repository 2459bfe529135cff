"""Runs one exercise's suite on many implementations, in a process forked from a session with all suites loaded."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass

import pytest
from grader.course.syllabus import load_syllabus
from grader.execution.target import Target
from grader.execution.worker import WorkerPool
from grader.plugin import hooks
from grader.plugin.capture import restart_capture
from grader.plugin.pytest_internals import reset_fixtures, run_test
from grader.processes.job import Job
from grader.processes.report import Report
from grader.quality.devcheck.subjects import Subject
from grader.runner.graded_run import GradedRun
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


def try_implementations(session: pytest.Session, job: TryJob, report: Report, fork: bool = True) -> None:
    """Send the results of the job's subjects. `fork`: is forking safe here?"""
    restart_capture(session.config)
    run = session.config.stash[hooks.RUN]
    run.search_seconds = SEARCH_SECONDS
    items = [item for item in session.items if (mark := item.get_closest_marker("exercise")) and mark.args[0] == job.exercise]
    pool = WorkerPool(fork=fork, warm=True)
    with cache_replies():
        tried = [_try(run, job, subject, items, pool, report) for subject in job.subjects]
    pool.close()
    report.finish(result=[asdict(each) for each in tried])


def _try(run: GradedRun, job: TryJob, subject: Subject, items: list[pytest.Item], pool: WorkerPool, report: Report) -> Tried:
    exercise = load_syllabus().exercise(job.exercise)
    target = Target(f"{subject.kind} {subject.name}", None, {exercise.module: subject.text})
    run.trial = Trial(target, job.in_worker, seed=job.seed, pool=pool)
    run.results, run.shortcuts, run.broken, run.scripts = {}, {}, {}, None
    began = time.process_time()
    for item, after in zip(items, [*items[1:], None]):
        assert isinstance(item, pytest.Function)
        report.extend_deadline(BETWEEN_SECONDS)
        reset_fixtures(item)
        hooks.give_seed(item, run)
        run_test(item, after)
    spent = (time.process_time() - began) * 1000
    run.trial.close()
    if subject.kind == "degenerate":
        run.trial.records.clear()  # without records no known mistake is looked for
    only = {exercise.name: run.weights[exercise.name]} if exercise.name in run.weights else {}
    weights, run.weights = run.weights, only
    run.conclude()
    run.weights = weights
    result = run.results.get(exercise.name)
    if result is None:
        return Tried(subject.kind, subject.name, 0.0, "todo", {}, {}, [], [], spent)
    return Tried(
        subject.kind, subject.name, result.earned, result.outcome,
        {test.name: test.outcome for test in result.tests},
        {test.name: test.message for test in result.tests if test.outcome not in ("passed", "todo")},
        [mistake.id for mistake in result.diagnosis.mistakes] if result.diagnosis else [], result.forbidden, spent,
    )  # fmt: skip
