"""Loads what every run needs, before a job comes; then does the job."""

from __future__ import annotations

import gc
import os
import socket
import sys
import warnings
from collections.abc import Callable, Mapping

import grader.runner.loading  # noqa: F401  # first: before torch
import torch
from grader.course.chapter_source import ChapterSource
from grader.course.status import next_step
from grader.course.syllabus import Exercise, load_syllabus
from grader.course.torch_operators import reportable, reportable_at_import
from grader.execution.late_calls import CallWatch
from grader.execution.target import reference_names, reference_of
from grader.processes.job import Job
from grader.processes.report import Report
from grader.processes.service import Runner
from grader.runner.graded_tests import NoTests, all_tests_of
from grader.verdict.examples import use_headway_profile
from grader.verdict.last_verdicts import conditions
from grader.verdict.recordings import course_recordings
from grader.verdict.trial import CALL_SECONDS
from hypothesis import given
from hypothesis import strategies as st


def load_kit() -> None:
    """Load what every run needs, and do what saves time in each."""
    sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # what is printed here is discarded
    use_headway_profile()
    gc.freeze()  # hypothesis collects garbage when it first draws, which then takes no time
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # hypothesis misses the references of objects that are frozen
        warm()
    keep_for_forks()


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
    """Do once what is slow the first time, so that runs need not do it: an operation on the device `meta`, and drawing
    examples."""
    torch.empty(2, device="meta") + torch.empty(2, device="meta")

    @given(st.integers(0, 9), st.text(max_size=3), st.lists(st.integers(0, 3), max_size=2))
    def law(number, text, numbers):
        assert number >= 0

    law()
    conditions()
    next_step()


def preload(exercise: Exercise, compile_chapter: Callable[[ChapterSource], object]) -> bool:
    """Load once, in the server, what every run of an exercise needs, and compile the reference's earlier chapters.
    Return whether all its examples are recorded."""
    reportable(exercise.forbids), reportable_at_import(exercise.forbids)
    for chapter in load_syllabus().chapters:
        if chapter.id < exercise.chapter and (reference := reference_of(chapter.name)):
            compile_chapter(reference)
    if reference := reference_of(exercise.module):
        reference_names(reference)
    return all([course_recordings().find(test.id, 0) for test in all_tests_of(exercise)])


def keep_for_forks() -> None:
    """Have no forked process copy what is loaded: its garbage collector leaves these objects alone."""
    gc.collect()
    gc.freeze()
