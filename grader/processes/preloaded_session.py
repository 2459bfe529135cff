"""A pytest session with all suites collected. It waits for jobs; each job runs in a separate process, which continues from this session.

A run prints and finds what `pytest` itself would print and find.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from os import _exit  # the learner's code may replace os._exit

import pluggy
import pytest
import torch
from grader.course.source import SourceProblem
from grader.course.status import next_step
from grader.course.stubs import reference_stub
from grader.course.syllabus import ROOT, TESTS, load_syllabus
from grader.execution.exit_reason import PROCESS_BROKEN
from grader.execution.forbidden import shortcuts
from grader.execution.reference_parts import reference_names
from grader.execution.target import reference_of
from grader.plugin.hooks import FORKED, RUN
from grader.plugin.pytest_internals import freeze_plugin_names
from grader.processes.report import Report
from grader.processes.service import Assignment, Runner
from grader.verdict.conditions import conditions
from grader.verdict.trial import CALL_SECONDS
from hypothesis import given
from hypothesis import strategies as st

CONCLUDING_SECONDS = 60.0  # for the diagnosis, after all tests

ARGUMENTS = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "-p", "no:cacheprovider", "-p", "no:faulthandler", "-p", "no:logging"]


def load_session(wait: Callable[[pytest.Session], Assignment | None], runners: Mapping[type, Runner]) -> bool:
    """Collect all suites, then call `wait`. It returns an assignment in the process that is to run it, or None when no more will come.

    The function in `runners` for the job's type does the job and never returns, or prepares the session, whose tests then run.
    Return whether the suites could be collected.
    """
    session = _PreloadedSession(wait, runners)
    sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # until there is a reader
    try:
        status = int(pytest.main([*ARGUMENTS, "-W", "ignore::pytest.PytestAssertRewriteWarning", str(TESTS)], plugins=[session]))
        if session.report:
            session.at_end()
            session.report.message(done=status)
            _exit(0)
    except BaseException:
        if session.report:
            _exit(PROCESS_BROKEN)
        raise
    return session.loaded


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


def settle_header(session: pytest.Session) -> None:
    """Store the versions for the header; otherwise pytest reads them from the packages' metadata in every run: 10 ms of 70."""
    freeze_plugin_names(session.config)
    pluggy.__version__ = pluggy.__version__


class _PreloadedSession:
    """The plugin with the main loop that waits."""

    def __init__(self, wait: Callable[[pytest.Session], Assignment | None], runners: Mapping[type, Runner]) -> None:
        self.wait, self.runners = wait, runners
        self.loaded = False
        self.report: Report | None = None  # in a run's process
        self.failure_sent = False
        self.at_end: Callable[[], None] = lambda: None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if self.report or session.testsfailed:
            return None  # pytest's own loop continues: in a run, or to report suites that cannot be collected
        warm()
        session.config.stash[FORKED].allowed = False  # the server ends a run that does not end by itself
        settle_header(session)
        gc.collect()
        gc.freeze()
        self.loaded = True
        assignment = self.wait(session)
        if assignment is None:
            return True
        self.at_end = assignment.at_end
        self.report = Report(assignment.sock, assignment.call_watch)
        self.report.extend_deadline(CALL_SECONDS)
        self.runners[type(assignment.job)](session, assignment.job, self.report)
        return session.config.hook.pytest_runtestloop(session=session)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item):
        if self.report:
            self.report.message(begun=item.name.partition("[")[0])
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self.report and not self.failure_sent and getattr(report, "headway", "") in ("failed", "timeout", "error"):
            self.failure_sent = True
            self.report.message(failed=str(report.longrepr))

    @pytest.hookimpl(tryfirst=True)
    def pytest_internalerror(self) -> None:
        if self.report:
            _exit(PROCESS_BROKEN)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session):
        if self.report:
            self.report.extend_deadline(CONCLUDING_SECONDS)
        yield
        if self.report:
            self.report.message(verdict=session.config.stash[RUN].verdict().as_data())
