"""The process that grades: `python -m grader.classroom.judging.server [--spare] WALLS`, an engine of its own that takes whole submissions.

A pytest session with all suites loaded is forked for each submission (warm/), so that no submission's run can leave anything for the next.
The submission's code runs in workers behind walls (sandbox/). They are forked from a zygote that has seen no test, no reference and no
submission: each run is lent one of its own, which ends with it. Where no process with all its walls can be had for the code, the run ends and
says so: that is no zero.
"""

from __future__ import annotations

import contextlib
import io
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import fields
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
from grader.plugin.graded import GradedRun
from grader.processes import engine, forks, limits, prestarted, reporting
from grader.processes.job import asked_words
from grader.processes.server import Server
from grader.system import process_tree
from grader.verdict.trial import Trial

IDLE = 365 * 24 * 3600.0  # it ends with whoever grades
MEMORY = 1024**3  # bytes that a run may take beyond what it is forked with: an honest one takes a tenth of that


class RunWorkerPool(WorkerPool):
    """A run's own: the run ends, without a verdict, where this cannot do its part."""

    def __init__(self, report: reporting.Report, **options: Any) -> None:
        super().__init__(**options)
        self.report = report

    def start(self) -> tuple[Any, Any]:
        with self._or_no_run():
            return super().start()

    def status(self, who: Any, patience: float) -> int | None:
        with self._or_no_run():
            return super().status(who, patience)

    @contextlib.contextmanager
    def _or_no_run(self) -> Iterator[None]:
        try:
            yield
        except NoWorker as problem:
            self.report.message(trouble=f"{problem}; the next run tries again")
            os._exit(0)


class JudgeServer(Server):
    longest_question = 1 << 26  # bytes: every chapter of a submission
    broke_off = "grading it broke off: {}; the next run tries again"

    def understand(self, line: bytes) -> GradeJob | None:
        words = asked_words(line, self.token)
        return GradeJob(**words) if words and words.keys() == {field.name for field in fields(GradeJob)} else None


def main() -> None:
    isolation, fork = Isolation.named(sys.argv[-1]), sys.platform.startswith("linux") and "--spare" not in sys.argv

    def in_a_spare(session: pytest.Session, job: GradeJob, report: reporting.Report) -> None:
        become_grader(session, job, report, RunWorkerPool(report, fork=bool(isolation), isolation=isolation))

    if sys.argv[1].isdecimal():  # PORT WALLS
        prestarted.be_spare(GradeJob, in_a_spare, limited=False)
        return
    with engine.starting() as (out, lifeline):
        if fork:
            with_forks(out, lifeline, isolation)
        else:
            engine.with_spares(prestarted.Stock("grader.classroom.judging.server", str(isolation)), out, IDLE, lifeline, JudgeServer, public=False)


def with_forks(out, lifeline: io.RawIOBase, isolation: Isolation) -> None:
    pool, judge = WorkerPool(isolation=isolation), os.getpid()
    lent: list[socket.socket] = []
    pool.new_zygote().close()  # it starts while this process loads the suites
    assert isinstance(pool.zygote, subprocess.Popen)
    process_tree.own_children.add(pool.zygote.pid)
    for ours in filter(None, [reference_of(chapter.name) for chapter in load_syllabus().chapters]):
        without_text(ours)  # compiled once, and not in each of the runs that are forked from here

    def start(job: GradeJob, forget: Callable[[], None]) -> forks.Fork:
        control = pool.new_zygote()
        lent[:] = [control]  # for the process that is forked now
        try:
            return forks.start(job, forget, limited=False)
        finally:
            if os.getpid() == judge:
                control.close()

    def begin(session: pytest.Session, job: GradeJob, report: reporting.Report) -> None:
        assert pool.control is not None
        pool.control.close()
        limits.limit_growth(MEMORY)
        become_grader(session, job, report, RunWorkerPool(report, isolation=isolation, control=lent[0]))

    engine.with_forks(out, IDLE, lifeline, JudgeServer, start, begin, public=False)
    pool.close()


def become_grader(session: pytest.Session, job: GradeJob, report: reporting.Report, pool: WorkerPool) -> None:
    """Turn the waiting session into a run of all that was asked of this submission; what pytest prints is for nobody."""
    config, names = session.config, set(job.exercises)
    run: GradedRun = config.stash[hooks.RUN]
    target = Target("submission", None, job.sources, unread=job.unread)
    run.trial = Trial(target, job.in_worker, job.whole, job.seed, pool=pool, extend_deadline=report.alive, until=time.monotonic() + job.seconds)
    session.items[:] = [item for item in session.items if (mark := item.get_closest_marker("exercise")) and mark.args[0] in names]
    session.testscollected = len(session.items)
    for item in session.items:
        hooks.give_seed(item, run)
    config.option.no_summary = True
    reporting.capture_anew(config)
    reporting.reporter_on(config, io.StringIO()).pytest_sessionstart(session)


if __name__ == "__main__":
    main()
