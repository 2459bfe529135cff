"""Loads what every run needs, before a job comes; then does the job."""

from __future__ import annotations

import gc
import os
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress

import grader.runner.loading  # noqa: F401  # first: before torch
import torch
from grader.course.source import SourceProblem
from grader.course.status import next_step
from grader.course.stubs import reference_stub
from grader.course.syllabus import load_syllabus
from grader.execution.call_watch import CallWatch
from grader.execution.forbidden import shortcuts
from grader.execution.reference_parts import reference_names
from grader.execution.target import reference_of
from grader.processes.job import Job
from grader.processes.report import Report
from grader.processes.service import Runner
from grader.runner.graded_tests import NoTests
from grader.verdict.conditions import conditions
from grader.verdict.examples import use_headway_profile
from grader.verdict.trial import CALL_SECONDS
from hypothesis import given
from hypothesis import strategies as st


def load_kit(once: bool = False) -> None:
    """Load what every run needs. `once`: only one job will come, so nothing is done that only saves time later."""
    sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # what is printed here is discarded
    use_headway_profile()
    if not once:
        warm()
        gc.collect()
        gc.freeze()


def run_job(job: Job, sock: socket.socket, call_watch: CallWatch, runners: Mapping[type[Job], Runner]) -> None:
    """In the process of a run: do its job, and send the messages."""
    report = Report(sock, call_watch)
    report.extend_deadline(CALL_SECONDS)
    try:
        status = runners[type(job)](job, report)
    except NoTests as problem:
        report.finish(trouble=str(problem))
    report.message(done=status)


def warm() -> None:
    """Do once what takes a second or more the first time, so that runs need not do it."""
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.AdamW([weight])
    (weight * weight).sum().backward()
    optimizer.step()
    torch.empty(2, device="meta") + torch.empty(2, device="meta")

    @given(st.integers(0, 9), st.text(max_size=3), st.lists(st.integers(0, 3), max_size=2))
    def law(number, text, numbers):
        assert number >= 0

    law()
    conditions()
    course = load_syllabus()
    for chapter in course.chapters:
        if reference := reference_of(chapter.name):
            reference_names(reference)
        with suppress(SourceProblem):
            reference_stub(chapter.name)
    for forbids in {exercise.forbids for exercise in course.exercises}:
        shortcuts.load_tables(forbids)
    next_step()
