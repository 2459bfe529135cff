"""A process that has loaded everything waits for jobs; each job runs in a separate process, which continues from there."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from os import _exit  # the learner's code may replace os._exit

import grader.runner.loading  # noqa: F401  # first: before torch
import torch
from grader.course.source import SourceProblem
from grader.course.status import next_step
from grader.course.stubs import reference_stub
from grader.course.syllabus import load_syllabus
from grader.execution.exit_reason import PROCESS_BROKEN
from grader.execution.forbidden import shortcuts
from grader.execution.reference_parts import reference_names
from grader.execution.target import reference_of
from grader.processes.report import Report
from grader.processes.service import Assignment, Runner
from grader.runner.graded_tests import NoTests
from grader.verdict.conditions import conditions
from grader.verdict.examples import use_headway_profile
from grader.verdict.trial import CALL_SECONDS
from hypothesis import given
from hypothesis import strategies as st


def load_and_wait(wait: Callable[[], Assignment | None], runners: Mapping[type, Runner], once: bool = False) -> None:
    """Load what every run needs, then call `wait`. It returns an assignment in the process that is to run it, or None when no more will come.

    The function in `runners` for the job's type does the job; its process ends then, and does not return from here. `once`: only one job will come.
    """
    sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # nobody reads it
    use_headway_profile()
    if not once:
        warm()
        gc.collect()
        gc.freeze()
    assignment = wait()
    if assignment is None:
        return
    try:
        report = Report(assignment.sock, assignment.call_watch)
        report.extend_deadline(CALL_SECONDS)
        status = _run(runners[type(assignment.job)], assignment, report)
        assignment.at_end()
        report.message(done=status)
        _exit(0)
    finally:
        _exit(PROCESS_BROKEN)


def _run(runner: Runner, assignment: Assignment, report: Report) -> int:
    try:
        return runner(assignment.job, report)
    except NoTests as problem:
        report.finish(trouble=str(problem))


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
