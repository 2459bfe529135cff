"""The engine's other kind of run: not the tests, but a picture of what the exercise computes."""

from __future__ import annotations

import contextlib
import os
from os import _exit  # what the learner's code puts in its place is no concern of ours

import pytest
from grader.course.syllabus import load_syllabus
from grader.execution.worker import WorkerPool
from grader.processes import preloaded_session
from grader.processes.job import Job
from grader.processes.reporting import Report
from grader.teaching.show.both_sides import picture_of


def begin(session: pytest.Session, job: Job, report: Report, fork: bool = True) -> int | None:
    """Draw and be done, where a picture was asked for; else make the waiting session a run of the tests."""
    if not job.picture:
        return preloaded_session.begin(session, job, report, fork)
    with contextlib.suppress(OSError):  # a folder that is gone
        os.chdir(job.cwd)
    picture = picture_of(load_syllabus().exercise(job.name), in_worker=job.in_worker, pool=WorkerPool(fork=fork, warm=True), extend_deadline=report.alive)
    report.message(picture=picture.as_data())
    report.message(done=0)
    _exit(0)
