"""The server that grades: `python -m grader.classroom.judging.server [--prestarted] ISOLATION`. It runs GradeJobs: whole submissions.

Each submission runs in a separate process, forked from a session with all suites loaded, so that no run can leave anything for the next. The submission's
code runs in workers in the sandbox. They are forked from a zygote that has loaded no test, no reference and no submission: each run gets a new zygote,
which ends with it. If no sandboxed process can be started for the code, the run ends and reports that; the submission does not get zero points.
"""

from __future__ import annotations

import contextlib
import io
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest
from grader.classroom.judging.job import GradeJob
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import without_text
from grader.execution.errors import NoWorker
from grader.execution.sandbox.isolation import Isolation
from grader.execution.target import Target, reference_of
from grader.execution.worker import WorkerPool
from grader.plugin import hooks
from grader.plugin.capture import restart_capture
from grader.processes import limits
from grader.processes.job import Job
from grader.processes.report import Report, reporter_on
from grader.processes.server_process import main
from grader.processes.service import Service
from grader.runner.graded_run import GradedRun
from grader.runner.judging import PASSED, exercise_of
from grader.system import process_tree
from grader.verdict.trial import Trial

IDLE = 365 * 24 * 3600.0  # it ends with the program that grades
MEMORY = 1024**3  # bytes that a run may take beyond what it is forked with: an honest one takes a tenth of that


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


class GradingService(Service):
    """Grades submissions."""

    def __init__(self, isolation: Isolation) -> None:
        super().__init__(
            {GradeJob: self.prepare_run}, idle_seconds=IDLE, longest_request=1 << 26, crashed="grading it broke off: {}; the next run tries again"
        )  # fmt: skip
        self.isolation = isolation

    def prepare_run(self, session: pytest.Session, job: GradeJob, report: Report) -> None:
        prepare_grading(session, job, report, RunWorkerPool(report, fork=bool(self.isolation), isolation=self.isolation))


class ForkingGradingService(GradingService):
    """For runs that are forked from the server: each run gets its own zygote, forked from the server's zygote."""

    def __init__(self, isolation: Isolation) -> None:
        super().__init__(isolation)
        self.pool, self.server = WorkerPool(isolation=isolation), os.getpid()
        self.control: socket.socket | None = None  # of the zygote of the run that starts now
        self.session: pytest.Session | None = None
        self.preloaded: set[str] = set()  # exercises
        self.pool.start_early()  # it loads torch while this process loads torch and the suites
        assert isinstance(self.pool.zygote, subprocess.Popen)
        process_tree.own_children.add(self.pool.zygote.pid)
        for ours in filter(None, [reference_of(chapter.name) for chapter in load_syllabus().chapters]):
            without_text(ours)  # compiled once here, not in each forked run

    def loaded(self, session: pytest.Session) -> None:
        self.session = session
        self.pool.new_zygote().close()  # NoWorker here is the reason why the server does not start

    def before_start(self, job: Job) -> None:
        if self.session and isinstance(job, GradeJob):
            self._preload_examples(self.session, job)
        self.control = self.pool.new_zygote()

    def _preload_examples(self, session: pytest.Session, job: GradeJob) -> None:
        """Read the recorded examples of these exercises here, once, and not in each forked run."""
        names, missing = set(job.exercises) - self.preloaded, set()
        for item in session.items if names else ():
            exercise = exercise_of(item)
            if exercise and exercise.name in names and not session.config.stash[hooks.EXAMPLES].preload(item):
                missing.add(exercise.name)
        self.preloaded |= names - missing

    def after_start(self) -> None:
        if self.control is not None:
            self.control.close()
            self.control = None

    def close(self) -> None:
        self.pool.close()

    def prepare_run(self, session: pytest.Session, job: GradeJob, report: Report) -> None:
        assert self.pool.control is not None
        self.pool.control.close()
        limits.limit_growth(MEMORY)
        prepare_grading(session, job, report, RunWorkerPool(report, isolation=self.isolation, control=self.control))


def prepare_grading(session: pytest.Session, job: GradeJob, report: Report, pool: WorkerPool) -> None:
    """Select the tests to grade, and set up the trial of this submission; pytest's own loop runs the tests next. pytest's output is discarded."""
    config, names = session.config, set(job.exercises)
    run: GradedRun = config.stash[hooks.RUN]
    run.scripts = None
    target = Target("submission", None, job.sources, unread=job.unread)
    until = time.monotonic() + job.seconds
    run.trial = Trial(target, job.in_worker, job.whole, job.seed, pool=pool, extend_deadline=report.extend_deadline, end_time=until, seeds=job.seeds)
    config.stash[hooks.RUNNER].states.update(dict.fromkeys(job.passed, PASSED))
    session.items[:] = [item for item in session.items if (exercise := exercise_of(item)) and exercise.name in names]
    session.testscollected = len(session.items)
    for item in session.items:
        hooks.give_seed(item, run)
    config.option.no_summary = True
    restart_capture(config)
    reporter_on(config, io.StringIO()).pytest_sessionstart(session)


def service(fork: bool, options: list[str]) -> Service:
    return (ForkingGradingService if fork else GradingService)(Isolation.named(options[-1]))


if __name__ == "__main__":
    main("grader.classroom.judging.server", service)
