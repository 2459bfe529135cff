"""What the server that grades (start_server.py) does with a GradeJob.

Each submission runs in a separate process, forked from one that has loaded everything, so that no run can leave
anything for the next. The submission's code runs in workers in the sandbox. They are forked from a zygote that has
loaded no test, no reference and no submission: each run gets a new zygote, which ends with it. If no sandboxed process
can be started for the code, the run ends and reports that; the submission does not get zero points.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from typing import Any

from grader.classroom.judging.dispatch import GradeJob
from grader.classroom.judging.own_tests import judge_own_tests
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import without_text
from grader.execution.errors import NoWorker
from grader.execution.sandbox.isolation import Isolation
from grader.execution.target import Target
from grader.execution.worker import WorkerPool
from grader.own_tests.trying import OwnTestsPool
from grader.processes import limits
from grader.processes.job import Job
from grader.processes.preloaded import keep_for_forks, preload
from grader.processes.report import CONCLUDING_SECONDS, Report
from grader.processes.service import Service
from grader.runner.graded_tests import NoTests
from grader.runner.judging import judge_of
from grader.system import process_tree
from grader.system.kernel import use_huge_pages
from grader.verdict.recordings import course_recordings
from grader.verdict.trial import Trial

IDLE_SECONDS = 365 * 24 * 3600.0  # it ends with the program that grades
KIT_SECONDS = 1.0  # a look at the kit's files takes 4 ms, and a class has many submissions a second
RUN_BYTES = 1024**3  # of memory, beyond what a run is forked with: an honest one takes a tenth of that


class RunWorkerPool(WorkerPool):
    """A run's own: the run ends, without a verdict, where this cannot do its part."""

    def __init__(self, report: Report, **options: Any) -> None:
        super().__init__(**options)
        self.report = report

    def start(self) -> tuple[Any, Any]:
        with self._or_no_run():
            return super().start()

    def end_worker(self, process: Any, patience: float) -> int | None:
        with self._or_no_run():
            return super().end_worker(process, patience)

    @contextlib.contextmanager
    def _or_no_run(self) -> Iterator[None]:
        try:
            yield
        except NoWorker as problem:
            self.report.message(trouble=f"{problem}; the next run tries again")
            os._exit(0)


class RunTestsPool(RunWorkerPool, OwnTestsPool):
    """The same with workers that run the learner's own tests."""


class GradingService(Service):
    """Grades submissions."""

    def __init__(self, isolation: Isolation) -> None:
        crashed = "grading it broke off: {}; the next run tries again"
        super().__init__(
            {GradeJob: self.grade},
            idle_seconds=IDLE_SECONDS,
            longest_request=1 << 26,
            kit_seconds=KIT_SECONDS,
            crashed=crashed,
        )
        self.isolation = isolation

    def grade(self, job: GradeJob, report: Report) -> int:
        kind = RunTestsPool if job.own_tests else RunWorkerPool
        return grade(job, report, kind(report, fork=bool(self.isolation), isolation=self.isolation))


class ForkingGradingService(GradingService):
    """For runs that are forked from the server: each run gets its own zygote, forked from the server's zygote."""

    def __init__(self, pool: WorkerPool, isolation: Isolation) -> None:
        super().__init__(isolation)
        self.pool, self.server = pool, os.getpid()
        self.control: socket.socket | None = None  # of the zygote of the run that starts now
        self.preloaded: set[str] = set()  # exercises
        self.has_grown = False  # since its memory was last put into huge pages
        self.tests_pool = OwnTestsPool(isolation=isolation)
        _keep_zygote(self.pool)

    def loaded(self) -> None:
        self.pool.new_zygote().close()  # NoWorker here is the reason why the server does not start

    def before_start(self, job: Job) -> None:
        if isinstance(job, GradeJob) and job.own_tests:
            if self.tests_pool.zygote is None:
                self.tests_pool.start_early()
                _keep_zygote(self.tests_pool)
            self.control = self.tests_pool.new_zygote()
            return
        if isinstance(job, GradeJob):
            self._preload(job)
        self.control = self.pool.new_zygote()

    def _preload(self, job: GradeJob) -> None:
        """Load what the runs of these exercises need here, once for all forked runs."""
        names = set(job.exercises) - self.preloaded
        for exercise in [exercise for exercise in load_syllabus().exercises if exercise.name in names]:
            self.pool.prepare(exercise.forbids)
            with contextlib.suppress(NoTests):  # the run says so
                if preload(exercise, without_text):
                    self.preloaded.add(exercise.name)
        if names:
            keep_for_forks()
            self.has_grown = True

    def after_start(self) -> None:
        if self.control is not None:
            self.control.close()
            self.control = None
        if self.has_grown:  # the run that was started goes on meanwhile
            use_huge_pages()
            self.has_grown = False

    def close(self) -> None:
        self.pool.close()
        self.tests_pool.close()

    def grade(self, job: GradeJob, report: Report) -> int:
        for pool in (self.pool, self.tests_pool):
            if pool.control is not None:
                pool.control.close()
        limits.limit_growth(RUN_BYTES)
        return grade(job, report, RunWorkerPool(report, isolation=self.isolation, control=self.control))


def _keep_zygote(pool: WorkerPool) -> None:
    """The zygote is a child of the server that no run has left behind."""
    assert isinstance(pool.zygote, subprocess.Popen)
    process_tree.own_children.add(pool.zygote.pid)


def grade(job: GradeJob, report: Report, pool: WorkerPool) -> int:
    """Judge this submission, and send the verdict."""
    if job.own_tests:
        with contextlib.closing(pool):
            report.message(verdict=judge_own_tests(job, report, pool).as_data())
        return 0
    target = Target("submission", None, job.sources, unread=job.unread)
    until = time.monotonic() + job.seconds
    trial = Trial(
        target, job.in_worker, seed=job.seed,
        pool=pool, extend_deadline=report.extend_deadline, end_time=until, seeds=job.seeds, sends_ahead=True,
    )  # fmt: skip
    judge = judge_of(trial, course_recordings())
    names = set(job.exercises)
    exercises = [exercise for exercise in load_syllabus().exercises if exercise.name in names]
    tests = [test for exercise in exercises for test in judge.tests_of(exercise)]
    judge.run_tests(tests, begun=lambda test: report.message(begun=test.name))
    report.extend_deadline(CONCLUDING_SECONDS)
    judge.run.conclude()
    report.message(verdict=judge.run.verdict().as_data())
    judge.close()
    return 0
