"""Runs a PictureJob: draws what the exercise computes."""

from __future__ import annotations

import contextlib
import os

from grader.course.syllabus import load_syllabus
from grader.execution.worker import WorkerPool
from grader.processes.job import PictureJob
from grader.processes.limits import limit_this_process
from grader.processes.report import Report
from grader.teaching.show.both_sides import make_picture


def draw(job: PictureJob, report: Report, fork: bool = True) -> int:
    """Draw, and send the picture. `fork`: is forking safe here?"""
    limit_this_process()
    with contextlib.suppress(OSError):  # the folder no longer exists
        os.chdir(job.cwd)
    picture = make_picture(
        load_syllabus().exercise(job.name),
        in_worker=job.in_worker,
        pool=WorkerPool(fork=fork, warm=True),
        extend_deadline=report.extend_deadline,
    )
    report.message(picture=picture.as_data())
    return 0
