"""A pytest session with all suites collected that waits; then, in a process of its own, it goes on as a run of what was asked.

What comes out of it is what `pytest` itself would have printed and found: nothing is run another way.
"""

from __future__ import annotations

import bdb
import contextlib
import gc
import os
import pdb
import socket
import sys
from collections.abc import Callable
from os import _exit  # what the learner's code puts in their places is no concern of ours
from typing import Any

import pluggy
import pytest
import torch
from _pytest import terminal
from grader.course.syllabus import ROOT, TESTS, Chapter, load_syllabus
from grader.execution.exit_reason import UNUSABLE
from grader.execution.target import reference_of
from grader.execution.worker import WorkerPool
from grader.plugin.graded import GradedRun
from grader.plugin.hooks import RUN
from grader.processes.job import Job
from grader.processes.reporting import Report, capture_anew, reporter_on
from grader.processes.shared_tests import Sharing, mapped, processors
from grader.verdict.trial import CALL_SECONDS, Trial
from hypothesis import given
from hypothesis import strategies as st

IMPORT_SECONDS = 10.0  # torch is there already: what a chapter imports besides is soon done
CONCLUDING_SECONDS = 60.0  # for the diagnosis, when all tests have run

ARGUMENTS = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "-p", "no:cacheprovider", "-p", "no:faulthandler", "-p", "no:logging"]


Wait = Callable[[], tuple[Any, socket.socket] | None]
Begin = Callable[[pytest.Session, Any, Report], int | None]


def hold(wait: Wait, begin: Begin) -> None:
    """Collect everything, then `wait`: it returns a job in a process that is to run it, or None when all is over. `begin` makes the session that run,
    and may tell among how many processes its tests are shared."""
    session = _Held(wait, begin)
    silent = open(os.devnull, "w", encoding="utf-8")  # until there is somebody to print for
    sys.stdout = sys.stderr = silent
    try:
        status = int(pytest.main([*ARGUMENTS, "-W", "ignore::pytest.PytestAssertRewriteWarning", str(TESTS)], plugins=[session]))
        if session.report:
            session.report.message(done=status)
            _exit(0)
    except BaseException:
        if session.report:
            _exit(UNUSABLE)
        raise


def warm() -> None:
    """Do once what takes a second or more the first time, so that no run has to."""
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.AdamW([weight])
    (weight * weight).sum().backward()
    optimizer.step()
    torch.empty(2, device="meta") + torch.empty(2, device="meta")

    @given(st.integers(0, 9), st.text(max_size=3), st.lists(st.integers(0, 3), max_size=2))
    def law(number, text, numbers):
        assert number >= 0

    law()
    for chapter in load_syllabus().chapters:
        reference_of(chapter.name)


def settle_header(session: pytest.Session) -> None:
    """What the header says of versions stands in the metadata of packages, which pytest would read for every run: 10 ms of 70."""
    names = terminal._plugin_nameversions(session.config.pluginmanager.list_plugin_distinfo())
    terminal._plugin_nameversions = lambda plugininfo: names
    pluggy.__version__ = pluggy.__version__


class _Held:
    """The plugin whose main loop waits."""

    def __init__(self, wait: Wait, begin: Begin) -> None:
        self.wait, self.begin = wait, begin
        self.report: Report | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if self.report or session.testsfailed:
            return None  # the loop is pytest's own: of a run that has begun, or of suites that cannot be collected
        warm()
        settle_header(session)
        gc.collect()
        gc.freeze()
        asked = self.wait()
        if asked is None:
            return True
        job, sock = asked
        self.report = Report(sock)
        self.report.alive(CALL_SECONDS)
        processes = self.begin(session, job, self.report)
        if processes and processes > 1:
            session.config.pluginmanager.register(Sharing(session, self.report, processes))
        return session.config.hook.pytest_runtestloop(session=session)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item):
        if self.report:
            self.report.message(begun=item.name.partition("[")[0])
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_internalerror(self) -> None:
        if self.report:
            _exit(UNUSABLE)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session):
        if self.report:
            self.report.alive(CONCLUDING_SECONDS)
        yield
        if self.report:
            self.report.message(verdict=session.config.stash[RUN].verdict().as_data())


def begin(session: pytest.Session, job: Job, report: Report, fork: bool = True) -> int:
    """Turn the waiting session into a run of this job; tells among how many processes. `fork`: may others be forked from this very one?"""
    with contextlib.suppress(OSError):  # a folder that is gone: paths are shown whole
        os.chdir(job.cwd)
    config = session.config
    found = load_syllabus().find(job.name)
    chapter, names = (found.id, {e.name for e in found.exercises}) if isinstance(found, Chapter) else (found.chapter, {found.name})
    run: GradedRun = config.stash[RUN]
    run.trial = Trial(run.trial.target, job.in_worker, pool=WorkerPool(fork=fork, warm=True), import_seconds=IMPORT_SECONDS, extend_deadline=report.alive)
    run.each = mapped if fork and processors() > 1 else map
    suites = [item for item in session.items if item.path.name.startswith(f"test_{chapter}_")]
    session.items[:] = [item for item in suites if (mark := item.get_closest_marker("exercise")) and mark.args[0] in names]
    session.testscollected = len(session.items)
    capture_anew(config)
    pdb.set_trace = sys.breakpointhook = _no_debugger(f"pytest {'--chapter' if isinstance(found, Chapter) else '--exercise'} {job.name}")
    reporter = reporter_on(config, report, job.columns, job.colour)
    reporter.pytest_sessionstart(session)
    reporter._numcollected = len(suites)
    reporter.stats["deselected"] = [item for item in suites if item not in session.items]
    reporter.report_collect(final=True)
    report.flush()
    return processors() if fork and not job.in_worker else 1


def _no_debugger(instead: str) -> Callable[..., None]:
    def stop(*_: object, **__: object) -> None:
        raise bdb.BdbQuit(instead)

    return stop
