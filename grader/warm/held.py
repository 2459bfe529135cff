"""A pytest session with all suites collected that waits; then, in a process of its own, it goes on as a run of what was asked.

What comes out of it is what `pytest` itself would have printed and found: nothing is run another way.
"""

from __future__ import annotations

import gc
import io
import os
import socket
import sys
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ..door.worker import Nursery
from ..graded import GradedRun
from ..plugin import RUN
from ..syllabus import ROOT, SOLUTIONS, TESTS, Chapter, load_syllabus
from ..target import reference_of
from ..trial import Trial
from .job import Job, encode

IMPORT_SECONDS = 10.0  # torch is there already: what a chapter imports besides is soon done

ARGUMENTS = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "-p", "no:cacheprovider", "-p", "no:faulthandler"]


def hold(wait: Callable[[], tuple[Job, socket.socket] | None]) -> int:
    """Collect everything, then `wait`: it returns a job in a process that is to run it, or None when all is over."""
    session = _Held(wait)
    silent = open(os.devnull, "w", encoding="utf-8")  # until there is somebody to print for
    sys.stdout = sys.stderr = silent
    status = int(pytest.main([*ARGUMENTS, "-W", "ignore::pytest.PytestAssertRewriteWarning", str(TESTS)], plugins=[session]))
    if session.report:
        session.report.message(done=status)
        os._exit(0)
    return status


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
    for path in sorted(SOLUTIONS.glob("ch*.py")):
        reference_of(path.stem)


class Report(io.TextIOBase):
    """Where a run prints, and says how it goes."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._pending: list[str] = []

    def write(self, text: str) -> int:
        self._pending.append(text)
        return len(text)

    def flush(self) -> None:
        if self._pending:
            text, self._pending = "".join(self._pending), []
            self.sock.sendall(encode({"text": text}))

    def message(self, **message: object) -> None:
        self.flush()
        self.sock.sendall(encode(message))


class _Held:
    """The plugin whose main loop waits."""

    def __init__(self, wait: Callable[[], tuple[Job, socket.socket] | None]) -> None:
        self.wait = wait
        self.report: Report | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if self.report or session.testsfailed:
            return None  # the loop is pytest's own: of a run that has begun, or of suites that cannot be collected
        warm()
        gc.collect()
        gc.freeze()
        asked = self.wait()
        if asked is None:
            return True
        job, sock = asked
        self.report = Report(sock)
        begin(session, job, self.report)
        return session.config.hook.pytest_runtestloop(session=session)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if self.report:
            self.report.message(begun=nodeid.rpartition("::")[2].partition("[")[0])

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.report:
            self.report.message(verdict=session.config.stash[RUN].verdict().as_data())


def begin(session: pytest.Session, job: Job, report: Report) -> None:
    """Turn the waiting session into a run of this job."""
    os.chdir(job.cwd)
    config = session.config
    found = load_syllabus().find(job.name)
    chapter, names = (found.id, {e.name for e in found.exercises}) if isinstance(found, Chapter) else (found.chapter, {found.name})
    run: GradedRun = config.stash[RUN]
    nursery = Nursery(warm=True)
    run.trial = Trial(run.trial.target, job.door, nursery=nursery, import_seconds=IMPORT_SECONDS, heard=lambda: report.message(alive=1))
    suites = [item for item in session.items if item.path.name.startswith(f"test_{chapter}_")]
    session.items[:] = [item for item in suites if item.get_closest_marker("exercise").args[0] in names]
    session.testscollected = len(session.items)
    capture = config.pluginmanager.get_plugin("capturemanager")
    capture.stop_global_capturing()  # its files are shared with every process of this family
    capture.start_global_capturing()
    capture.suspend_global_capture(in_=True)
    reporter = _reporter(config, job, report)
    reporter.pytest_sessionstart(session)
    reporter._numcollected = len(suites)
    reporter.stats["deselected"] = suites[len(session.items) :]
    reporter.report_collect(final=True)
    report.flush()


def _reporter(config: pytest.Config, job: Job, report: Report) -> pytest.TerminalReporter:
    """pytest's own reporter, writing to whoever asked."""
    config.pluginmanager.unregister(name="terminalreporter")
    reporter = pytest.TerminalReporter(config, report)
    reporter._tw.hasmarkup = reporter.hasmarkup = job.colour
    reporter._tw.fullwidth = reporter._screen_width = job.columns
    config.pluginmanager.register(reporter, "terminalreporter")
    return reporter
