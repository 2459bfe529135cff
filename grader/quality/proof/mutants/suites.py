"""Runs the graded tests of one exercise on changed references, each change in a process forked from the run of a job (grader.quality.server)."""

from __future__ import annotations

import contextlib
import gc
import math
import os
import resource
import select
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import pytest
from grader.course.syllabus import Exercise
from grader.execution.target import Target
from grader.plugin import hooks
from grader.plugin.graded_run import GradedRun
from grader.plugin.pytest_internals import reset_fixtures, run_test
from grader.processes.job import Job
from grader.processes.limits import limit_this_process
from grader.processes.report import Report, restart_capture
from grader.system.process_tree import end_fork
from grader.system.streams import redirect_to_null
from grader.verdict import trial
from grader.verdict.hypothesis_internals import only_generate
from grader.verdict.trial import Trial

CLOCK_SECONDS = 600.0  # code that waits for ever is stopped after so long; on a busy machine the clock says little
PROCESSOR_SECONDS = 2  # code that loops for ever is stopped after so long, and three times what the reference takes


class ReferenceFails(RuntimeError):
    """There is nothing to be learned from changes of an exercise whose reference fails."""


class SuiteRunner:
    """What a job of a proof needs of the session: a proof derives from it and says how the job is done (`answer`)."""

    def __init__(self, session: pytest.Session, report: Report) -> None:
        self.report = report
        self.run: GradedRun = session.config.stash[hooks.RUN]
        self.last = ""  # how the last test ended
        self.run.record_test = self._note  # type: ignore[method-assign, assignment]
        self.run.message_of = lambda test: ""  # type: ignore[method-assign]  # messages are not shown
        restart_capture(session.config)
        trial.TEST_SECONDS = math.inf
        self.tests = [item for item in session.items if isinstance(item, pytest.Function)]
        for item in self.tests:
            only_generate(item.obj)  # the smallest example is not needed
        gc.freeze()  # what is here already is not looked through in every process forked from this one

    def answer(self, job: Any) -> list:
        """What the job leads to, as data."""
        raise NotImplementedError

    def finish(self, job: Job) -> NoReturn:
        try:
            result = self.answer(job)
        except ReferenceFails as problem:
            self.report.finish(trouble=str(problem))
        self.report.finish(result=result)

    def _note(self, exercise: Exercise, test: str, outcome: str, *_: Any) -> None:
        self.last = outcome

    def times(self, exercise: Exercise, text: str) -> dict[pytest.Function, float]:
        """Its tests, with how long the reference keeps a processor busy. It runs in this very process, which has then done everything once."""
        self.run.trial = trial_of(exercise, text)
        seconds = {}
        for item in self.tests:
            if not (mark := item.get_closest_marker("exercise")) or mark.args[0] != exercise.name:
                continue
            self.report.extend_deadline(CLOCK_SECONDS)
            began = time.process_time()
            self.run_test(item, None)
            seconds[item] = time.process_time() - began + 1e-3
            if self.last != "passed":
                raise ReferenceFails(f"the reference itself does not pass {item.name}, so changes of {exercise.name} would show nothing")
        self.run.trial.close()
        return seconds

    def lines_of_fork(self, work: Callable[[Callable[[str], None]], None], processor_seconds: int) -> Iterator[str]:
        """Each line that `work` says, in a process that may loop, eat memory or die; last "timeout" or "died" where it did not end well."""
        self.report.extend_deadline(2 * CLOCK_SECONDS)
        for line in lines_of_a_fork(work, processor_seconds):
            yield line
            self.report.extend_deadline(2 * CLOCK_SECONDS)

    def run_test(self, item: pytest.Function, after: pytest.Function | None) -> str:
        """The outcome of this test in the run's trial."""
        self.last = "error"  # where nothing is noted
        reset_fixtures(item)
        hooks.give_seed(item, self.run)
        run_test(item, after)
        return self.last


def trial_of(exercise: Exercise, text: str, seed: int = 0) -> Trial:
    return Trial(Target("changed", None, {exercise.module: text}), seed=seed, call_seconds=CLOCK_SECONDS)


def lines_of_a_fork(work: Callable[[Callable[[str], None]], None], processor_seconds: int) -> Iterator[str]:
    """Each line that `work` says, in a process that may loop, eat memory or die; last "timeout" or "died" where it did not end well."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if not pid:
        with contextlib.suppress(BaseException):
            os.setsid()
            redirect_to_null()
            limit_this_process()

            def say(line: str) -> None:
                os.write(theirs, f"{line}\n".encode())
                used = resource.getrusage(resource.RUSAGE_SELF)
                limit_processor(math.ceil(used.ru_utime + used.ru_stime) + processor_seconds)

            limit_processor(processor_seconds)
            work(say)
            os.write(theirs, b"end\n")
        os._exit(0)
    os.close(theirs)
    text = b""
    deadline = time.monotonic() + CLOCK_SECONDS
    ended = False
    while select.select([ours], [], [], max(0.0, deadline - time.monotonic()))[0] and (more := os.read(ours, 4096)):
        *lines, text = (text + more).split(b"\n")
        deadline = time.monotonic() + CLOCK_SECONDS
        for line in lines:
            ended = line == b"end"
            if not ended:
                yield line.decode()
    os.close(ours)
    late = time.monotonic() >= deadline
    status = end_fork(pid, 0.0 if late else CLOCK_SECONDS)
    if not ended:
        yield "timeout" if late or status == -signal.SIGXCPU else "died"


def limit_processor(seconds: int) -> None:
    """The processor's time for all this process has done and will do."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, hard))
