"""Runs a CheckJob: the preloaded session becomes what `pytest --exercise NAME` would be."""

from __future__ import annotations

import bdb
import contextlib
import os
import pdb
import sys
from collections.abc import Callable

import pytest
from grader.course.syllabus import Chapter, Exercise, load_syllabus
from grader.execution.forbidden import shortcuts
from grader.execution.worker import WorkerPool
from grader.plugin.capture import restart_capture
from grader.plugin.hooks import EXAMPLES, RUN
from grader.processes.job import CheckJob
from grader.processes.limits import limit_this_process
from grader.processes.report import Report, reporter_on
from grader.processes.shared_tests import Sharing, count_processes, map_in_two_processes
from grader.runner.graded_run import GradedRun
from grader.runner.judging import exercise_of
from grader.verdict.replay import compile_mistakes
from grader.verdict.trial import Trial

QUIET = -1  # as `pytest -q`: dots and the verdict, without a header
IMPORT_SECONDS = 10.0  # torch is loaded already: other imports of a chapter are quick


def prepare_check(session: pytest.Session, job: CheckJob, report: Report, fork: bool = True) -> None:
    """Select the tests of this job, and set up its trial and its reporter; pytest's own loop runs the tests next. `fork`: is forking safe here?"""
    limit_this_process()
    with contextlib.suppress(OSError):  # a folder that is gone: paths are shown whole
        os.chdir(job.cwd)
    config = session.config
    found = load_syllabus().find(job.name)
    names = _names(found)
    run: GradedRun = config.stash[RUN]
    run.names = names
    run.trial = Trial(run.trial.target, job.in_worker, pool=WorkerPool(fork=fork, warm=True), import_seconds=IMPORT_SECONDS, extend_deadline=report.extend_deadline)
    run.trial.call_watch = report.call_watch
    run.trial.short_limit |= names if job.hurried and len(names) == 1 else set()
    run.map_mistakes = map_in_two_processes if fork and count_processes() > 1 else map
    session.items[:] = [item for item in session.items if (exercise := exercise_of(item)) and exercise.name in names]
    session.items.sort(key=lambda item: item.name not in job.first)
    session.testscollected = len(session.items)
    restart_capture(config)
    pdb.set_trace = sys.breakpointhook = _no_debugger(f"pytest {'--chapter' if isinstance(found, Chapter) else '--exercise'} {job.name}")
    config.option.verbose = QUIET
    reporter_on(config, report, job.columns, job.colour).pytest_sessionstart(session)
    report.flush()
    if fork and not job.in_worker and count_processes() > 1:
        config.pluginmanager.register(Sharing(session, report, count_processes()))


def preload_exercise(session: pytest.Session, job: CheckJob) -> None:
    """In the server: do what every run of an exercise does in the same way, so that only its first run waits for it."""
    found = load_syllabus().find(job.name)
    names = _names(found)
    if not isinstance(found, Chapter) and found.forbids:
        shortcuts.prepare_only(found.forbids)
    for item in session.items:
        if (exercise := exercise_of(item)) and exercise.name in names:
            session.config.stash[EXAMPLES].preload(item)


def preload_mistakes(job: CheckJob) -> None:
    """In the server, when it has time: compile the known mistakes of an exercise, which the diagnosis of a failure tries."""
    found = load_syllabus().find(job.name)
    if not isinstance(found, Chapter):
        compile_mistakes(found)


def _names(found: Chapter | Exercise) -> set[str]:
    return {exercise.name for exercise in found.exercises} if isinstance(found, Chapter) else {found.name}


def _no_debugger(instead: str) -> Callable[..., None]:
    def stop(*_: object, **__: object) -> None:
        raise bdb.BdbQuit(instead)

    return stop
