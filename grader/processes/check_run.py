"""Runs the jobs of a learner: a CheckJob, the graded tests of exercises or chapters, and a PictureJob, a drawing of
what an exercise computes."""

from __future__ import annotations

import bdb
import contextlib
import os
import pdb
import sys
from collections.abc import Callable

from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import compiled
from grader.execution.forbidden import shortcuts
from grader.execution.target import resolve
from grader.execution.worker import WorkerPool
from grader.processes.job import CheckJob, PictureJob
from grader.processes.limits import limit_this_process
from grader.processes.preloaded import keep_for_forks, preload
from grader.processes.report import CONCLUDING_SECONDS, Report
from grader.processes.shared_tests import first_attempts, map_in_processes
from grader.reproduction.files import FOLDER
from grader.runner.graded_run import PAGE_SECONDS
from grader.runner.graded_tests import GradedTest, NoTests
from grader.runner.judging import Judge, judge_of
from grader.runner.run_page import LETTERS, Page, print_result, print_run, print_search
from grader.teaching.show.both_sides import make_picture
from grader.verdict.diagnosis import Map
from grader.verdict.recordings import course_recordings
from grader.verdict.replay import compile_mistakes
from grader.verdict.results import TestResult
from grader.verdict.trial import Trial

IMPORT_SECONDS = 10.0  # torch is loaded already: other imports of a chapter are quick
MARKUP = {"bold": "1", "red": "31", "green": "32", "yellow": "33"}  # of a terminal


def check(job: CheckJob, report: Report, fork: bool = True) -> int:
    """Judge, print the page and send the verdict: 0 if nothing fails. `fork`: is forking safe here?"""
    limit_this_process()
    with contextlib.suppress(OSError):  # a folder that is gone: paths are shown whole
        os.chdir(job.cwd)
    exercises = load_syllabus().chosen([job.name])
    chosen = (
        [f"--exercise {exercises[0].name}"]
        if len(exercises) == 1
        else [f"--chapter {each.chapter}" for each in exercises]
    )
    pdb.set_trace = sys.breakpointhook = _no_debugger(" ".join(dict.fromkeys(["pytest", *chosen])))
    judge = _judge_for(job, report, fork)
    tests = [test for exercise in exercises for test in judge.tests_of(exercise)]
    if not tests:
        raise NoTests(f"there are no tests for {job.name} in tests/")
    tests.sort(key=lambda test: test.name not in job.first)
    lines = _Lines(job, report)

    if fork and not job.in_worker:
        for test, attempt in zip(tests, first_attempts(judge, tests, report)):
            lines.decided(test, judge.accept(judge.final_attempt(test, attempt)))
    else:
        judge.run_tests(tests, lambda test: report.message(begun=test.name), lines.decided)
    report.extend_deadline(CONCLUDING_SECONDS)
    judge.run.conclude()
    lines.end_row()
    page = Page(lines.write, job.columns, job.lines)
    failing = [result for result in judge.run.results.values() if result.failures or result.forbidden]
    if judge.run.trial.target.is_own_folder:
        shown = print_run(page, judge.run)
    else:  # practice, which has no points and no next step
        shown = [result.exercise.name for result in failing]
        for result in failing:
            print_result(page, result, last=f"For a hint: headway hint {result.exercise.name}")
    report.message(verdict=judge.run.verdict().as_data())
    judge.record_states()
    if judge.run.searches:
        print_search(page, judge.run, shown, begun=lambda: report.message(searching=True))
        report.message(verdict=judge.run.verdict().as_data())
    judge.close()
    return int(bool(failing))


def _judge_for(job: CheckJob, report: Report, fork: bool) -> Judge:
    pool = _worker_pool(job, fork)
    target = resolve(job.target or None)
    trial = Trial(
        target,
        job.in_worker,
        pool=pool,
        import_seconds=IMPORT_SECONDS,
        extend_deadline=report.extend_deadline,
        call_watch=report.call_watch,
        sends_ahead=True,
    )
    exercises = load_syllabus().chosen([job.name])
    if job.was_late and len(exercises) == 1:
        trial.short_limit.add(exercises[0].name)
    each: Map = map_in_processes if fork else map
    return judge_of(
        trial, course_recordings(), chosen=True, scripts=FOLDER, map_mistakes=each, page_seconds=PAGE_SECONDS
    )


def _worker_pool(job: CheckJob | PictureJob, fork: bool) -> WorkerPool:
    return WorkerPool(fork=fork, warm=not job.cold)


class _Lines:
    """The text of a run: a row with a letter for each test, then the page."""

    def __init__(self, job: CheckJob, report: Report) -> None:
        self.job, self.report = job, report
        self.letters, self.failure_sent = 0, False

    def decided(self, test: GradedTest, results: list[TestResult]) -> None:
        for result in results:
            if result.outcome == "todo":  # nothing was tested
                continue
            if not self.failure_sent and result.outcome != "passed":
                self.failure_sent = True
                self.report.message(failed=result.message)
            letter, colour = LETTERS[result.outcome]
            self.report.write(self._coloured(letter, colour))
            self.letters += 1
            if self.letters % self.job.columns == 0:
                self.report.write("\n")
        self.report.flush()

    def end_row(self) -> None:
        if self.letters % self.job.columns:
            self.report.write("\n")

    def write(self, line: str, **markup: bool) -> None:
        self.report.write(self._coloured(line, *(name for name in markup if markup[name])) + "\n")

    def _coloured(self, text: str, *names: str) -> str:
        if not (self.job.colour and names and text):
            return text
        return f"\x1b[{';'.join(MARKUP[name] for name in names)}m{text}\x1b[0m"


def preload_exercise(job: CheckJob) -> None:
    """In the server: do what every run of an exercise does in the same way, so that only its first run waits for it,
    and compile its known mistakes, which the diagnosis of a failure tries."""
    exercises = load_syllabus().chosen([job.name])
    for exercise in exercises:
        shortcuts.prepare(exercise.forbids)
        preload(exercise, compiled)
    if len(exercises) == 1:
        compile_mistakes(exercises[0])
    keep_for_forks()


def _no_debugger(instead: str) -> Callable[..., None]:
    def stop(*_: object, **__: object) -> None:
        raise bdb.BdbQuit(instead)

    return stop


def draw(job: PictureJob, report: Report, fork: bool = True) -> int:
    """Draw, and send the picture. `fork`: is forking safe here?"""
    limit_this_process()
    with contextlib.suppress(OSError):  # the folder no longer exists
        os.chdir(job.cwd)
    pool = _worker_pool(job, fork)
    trial = Trial(resolve(None), job.in_worker, pool=pool, extend_deadline=report.extend_deadline)
    with contextlib.closing(pool), contextlib.closing(trial):
        picture = make_picture(load_syllabus().exercise(job.name), trial, job.yours_alone)
        report.message(picture=picture.as_data())
    return 0
