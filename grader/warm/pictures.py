"""The engine's other kind of run: not the tests, but a picture of what the exercise computes."""

from __future__ import annotations

import contextlib
import os
from os import _exit  # what the learner's code puts in its place is no concern of ours

import pytest

from ..door.worker import Nursery
from ..showing.sides import picture_of
from ..syllabus import load_syllabus
from . import held
from .job import Job
from .reporting import Report


def begin(session: pytest.Session, job: Job, report: Report, fork: bool = True) -> int | None:
    """Draw and be done, where a picture was asked for; else make the waiting session a run of the tests."""
    if not job.picture:
        return held.begin(session, job, report, fork)
    with contextlib.suppress(OSError):  # a folder that is gone
        os.chdir(job.cwd)
    picture = picture_of(load_syllabus().exercise(job.name), door=job.door, nursery=Nursery(fork=fork, warm=True), heard=report.alive)
    report.message(picture=picture.as_data())
    report.message(done=0)
    _exit(0)
