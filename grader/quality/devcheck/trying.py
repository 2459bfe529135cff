"""Runs one exercise's suite on many implementations inside one pytest session, which imports torch and collects the tests once."""

from __future__ import annotations

import contextlib
import gc
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection

import pytest
from _pytest.runner import runtestprotocol
from grader.course.syllabus import TESTS, load_syllabus
from grader.execution.target import Target
from grader.execution.worker import WorkerPool
from grader.plugin import hooks
from grader.quality.devcheck.subjects import Subject
from grader.verdict.diagnosis import cache_replies
from grader.verdict.trial import Trial


@dataclass(frozen=True)
class Job:
    exercise: str
    in_worker: bool
    seed: int
    subjects: tuple[Subject, ...]


@dataclass(frozen=True)
class Tried:
    """What one implementation got."""

    kind: str
    name: str
    earned: float
    outcome: str
    outcomes: dict[str, str]  # test → outcome
    messages: dict[str, str]  # test → message, of those not passed
    diagnosis: str | None
    forbidden: list[str]
    milliseconds: float  # of the processor: other work beside it changes that less than the clock


def serve(jobs: Connection) -> None:
    """In a process of its own: answers each Job with a list of Tried, until None comes."""
    with open(os.devnull, "w") as null, contextlib.redirect_stdout(null):
        pytest.main(["-q", "-p", "no:cacheprovider", f"--rootdir={TESTS.parent}", str(TESTS)], plugins=[_Trying(jobs)])


class _Trying:
    """A pytest plugin whose main loop runs the tests of whatever job comes."""

    def __init__(self, jobs: Connection) -> None:
        self.jobs = jobs
        self.pool = WorkerPool()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        run = session.config.stash[hooks.RUN]
        items: dict[str, list[pytest.Item]] = {}
        for item in session.items:
            mark = item.get_closest_marker("exercise")
            if mark:
                items.setdefault(mark.args[0], []).append(item)
        if session.testsfailed:
            self._refuse("the graded suites cannot be collected; run pytest to see why")
            return True
        gc.collect()
        gc.freeze()  # torch and the suites stay: nobody need look through them again and again
        self._answer(lambda job: self._try_all(run, job, items.get(job.exercise, [])))
        self.pool.close()
        run.results.clear()
        return True

    def _answer(self, work: Callable[[Job], list[Tried]]) -> None:
        while (job := self.jobs.recv()) is not None:
            self.jobs.send(work(job))

    def _refuse(self, why: str) -> None:
        while self.jobs.recv() is not None:
            self.jobs.send(why)

    def _try_all(self, run, job: Job, items: list[pytest.Item]) -> list[Tried]:
        with cache_replies():
            return [self._try(run, job, subject, items) for subject in job.subjects]

    def _try(self, run, job: Job, subject: Subject, items: list[pytest.Item]) -> Tried:
        exercise = load_syllabus().exercise(job.exercise)
        target = Target(f"{subject.kind} {subject.name}", None, {exercise.module: subject.text})
        run.trial = Trial(target, job.in_worker, seed=job.seed, pool=self.pool)
        run.results, run.shortcuts, run.broken = {}, {}, {}
        began = time.process_time()
        for item, after in zip(items, [*items[1:], None]):
            assert isinstance(item, pytest.Function)
            item._initrequest()
            hooks.give_seed(item, run)
            runtestprotocol(item, log=False, nextitem=after)
        spent = (time.process_time() - began) * 1000
        run.trial.close()
        if subject.kind == "degenerate":
            run.trial.records.clear()  # it makes no mistake that has a name
        only = {exercise.name: run.weights[exercise.name]} if exercise.name in run.weights else {}
        weights, run.weights = run.weights, only
        run.conclude()
        run.weights = weights
        result = run.results.get(exercise.name)
        if result is None:
            return Tried(subject.kind, subject.name, 0.0, "todo", {}, {}, None, [], spent)
        return Tried(
            subject.kind, subject.name, result.earned, result.outcome,
            {test.name: test.outcome for test in result.tests},
            {test.name: test.message for test in result.tests if test.outcome not in ("passed", "todo")},
            result.diagnosis.id if result.diagnosis else None, result.forbidden, spent,
        )  # fmt: skip
