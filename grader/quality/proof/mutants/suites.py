"""Runs the graded tests of one exercise on changed references, each change in a process forked from the run of a job (grader.quality.server)."""

from __future__ import annotations

import contextlib
import gc
import math
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

from grader.course.syllabus import Exercise
from grader.execution.target import Target
from grader.processes.job import Job
from grader.processes.limits import limit_this_process
from grader.processes.report import Report
from grader.runner.graded_run import outcome_of
from grader.runner.graded_tests import GradedTest, all_tests_of
from grader.runner.judging import judge_of
from grader.system.forks import Fork
from grader.system.streams import redirect_to_null
from grader.verdict import trial
from grader.verdict.examples import only_generate
from grader.verdict.recordings import course_recordings
from grader.verdict.results import TestResult
from grader.verdict.trial import Trial

CLOCK_SECONDS = 600.0  # code that waits for ever is stopped after so long; long, because a busy machine is slow
PROCESSOR_SECONDS = 2  # code that loops for ever is stopped after so long plus three times what the reference takes


class ReferenceFails(RuntimeError):
    """The reference fails, so changes of the exercise would show nothing."""


class SuiteRunner:
    """Runs tests on changed references; a proof derives a class from it that does its job in `answer`."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.judge = judge_of(Trial(Target("changed", None, {})), course_recordings())
        self.judge.run.record_test = self._note  # type: ignore[method-assign, assignment]
        trial.TEST_SECONDS = math.inf

    def answer(self, job: Any) -> list:
        """Do the job, and return its result as data."""
        raise NotImplementedError

    def finish(self, job: Job) -> int:
        try:
            result = self.answer(job)
        except ReferenceFails as problem:
            self.report.finish(trouble=str(problem))
        self.report.message(result=result)
        return 0

    def _note(self, test: GradedTest, seconds: float, problem: BaseException | None, printed: str) -> TestResult:
        """Only the outcome is wanted, without the explanation of a failure."""
        return TestResult(test.name, outcome_of(problem), seconds, test.weight)

    def times(self, exercise: Exercise, text: str) -> dict[GradedTest, float]:
        """The exercise's tests, with the reference's processor time for each. They run in this process itself, so slow first uses happen once, before the forks."""
        self.set_trial(trial_of(exercise, text))
        seconds = {}
        for test in all_tests_of(exercise):
            only_generate(test.function)  # the smallest example is not needed
            self.report.extend_deadline(CLOCK_SECONDS)
            began = time.process_time()
            outcome = self.run_test(test)
            seconds[test] = time.process_time() - began + 1e-3
            if outcome != "passed":
                raise ReferenceFails(f"the reference does not pass {test.name}, so changes of {exercise.name} would show nothing; fix that first")
        self.judge.run.trial.close()
        gc.freeze()  # processes forked from this one then do not scan what is already loaded
        return seconds

    def lines_of_fork(self, work: Callable[[Callable[[str], None]], None], processor_seconds: int) -> Iterator[str]:
        """Each line that `work` reports from a process that may loop, use up memory or die; the last is "timeout" or "died" if the process did not end normally."""
        self.report.extend_deadline(2 * CLOCK_SECONDS)
        for line in lines_of_a_fork(work, processor_seconds):
            yield line
            self.report.extend_deadline(2 * CLOCK_SECONDS)

    def set_trial(self, new: Trial) -> None:
        self.judge.run.trial = new

    def run_test(self, test: GradedTest) -> str:
        """The outcome of this test in the trial."""
        return self.judge.runner.run_test(test).outcome


def trial_of(exercise: Exercise, text: str, seed: int = 0) -> Trial:
    return Trial(Target("changed", None, {exercise.module: text}), seed=seed, call_seconds=CLOCK_SECONDS)


def lines_of_a_fork(work: Callable[[Callable[[str], None]], None], processor_seconds: int) -> Iterator[str]:
    """Each line that `work` reports from a process that may loop, use up memory or die; the last is "timeout" or "died" if the process did not end normally."""

    def run(line: Fork) -> None:
        os.setsid()
        redirect_to_null()
        limit_this_process()

        def report_line(text: str) -> None:
            line.send(text)
            used = resource.getrusage(resource.RUSAGE_SELF)
            limit_processor(math.ceil(used.ru_utime + used.ru_stime) + processor_seconds)

        limit_processor(processor_seconds)
        with contextlib.suppress(Exception):
            work(report_line)
            line.send(None)

    fork, late, ended = Fork(run), False, False
    try:
        while not (late or ended):
            late = not fork.has_message(CLOCK_SECONDS)
            text = None if late else fork.receive()
            ended = not late and text is None
            if text is not None:
                yield text
    except EOFError:
        late = not ended and fork.end(CLOCK_SECONDS) == -signal.SIGXCPU
    finally:
        fork.end()
    if not ended:
        yield "timeout" if late else "died"


def limit_processor(seconds: int) -> None:
    """Limit the processor time of this process, including the time that it has already used."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, hard))
