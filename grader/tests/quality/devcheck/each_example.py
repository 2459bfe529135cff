"""Runs each common example of an exercise's tests by itself, on many implementations: which of them fail?"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

from grader.course.syllabus import load_syllabus
from grader.execution.errors import OutOfTime
from grader.execution.target import Target
from grader.processes.job import Job
from grader.processes.report import Report
from grader.runner.example_runs import ExampleRuns
from grader.runner.graded_tests import GradedTest, all_tests_of
from grader.runner.printed import PrintedLines
from grader.system.forks import Fork
from grader.tests.quality.devcheck.subjects import Subject
from grader.verdict.examples import run_pinned, seed_examples
from grader.verdict.recordings import Recording
from grader.verdict.trial import TIMEOUTS_AN_EXERCISE, Trial

LOADING_SECONDS = 120.0
CALL_SECONDS = 2.0
USUAL = 1  # the place of the drawn example that always runs: the one before it has the simplest sizes
PINNED = "pinned"  # the key of all pinned examples together

Failing = dict[str, list[str]]  # test → the keys of the examples that fail


@dataclass(frozen=True)
class EachExampleJob(Job):
    exercise: str
    subjects: tuple[Subject, ...]
    subject_seconds: float = 300.0


def run_each_example(job: EachExampleJob, report: Report) -> int:
    """Send for each test with several common examples their keys, and for each subject the keys of those that fail.
    None for a subject that ended or hung its process."""
    report.extend_deadline(LOADING_SECONDS)
    exercise = load_syllabus().exercise(job.exercise)
    recorded = _record([test for test in all_tests_of(exercise) if hasattr(test.function, "hypothesis")])
    results: list[Failing | None] = []
    while len(results) < len(job.subjects):
        fork = Fork(partial(_send_failing, list(job.subjects[len(results) :]), exercise.module, recorded))
        while len(results) < len(job.subjects):
            report.extend_deadline(2 * job.subject_seconds)
            try:
                results.append(fork.receive() if fork.line.poll(job.subject_seconds) else None)
            except EOFError:
                results.append(None)
            if results[-1] is None:
                break
        fork.end()
    drawn = {test.name: [example.key for example in recording.examples] for test, recording in recorded.items()}
    report.message(result={"drawn": drawn, "failing": results})
    return 0


def _send_failing(subjects: list[Subject], module: str, recorded: dict[GradedTest, Recording], fork: Fork) -> None:
    for subject in subjects:
        trial = Trial(Target(f"{subject.kind} {subject.name}", None, {module: subject.text}), call_seconds=CALL_SECONDS)
        failing: Failing = {}
        for test, recording in recorded.items():
            if trial.timeouts.get(test.exercise.name, 0) < TIMEOUTS_AN_EXERCISE:
                failing[test.name] = _failing(test, trial, recording)
        trial.close()
        fork.send(failing)


def _record(tests: list[GradedTest]) -> dict[GradedTest, Recording]:
    """All common examples of each test that has several, with the reference's answers."""
    found = {}
    with closing(ExampleRuns(None)) as example_runs:
        for test in tests:
            seed_examples(test.function, test.name, 0)
            recording = example_runs.record(test, 0, every=True)
            if len(recording.examples) > 1:
                found[test] = recording
    return found


def _failing(test: GradedTest, trial: Trial, recording: Recording) -> list[str]:
    """The keys of the examples that fail. If the usual one or a pinned one does, others are not tried: these always
    run."""
    failing: list[str] = []
    trial.begin_test(test.exercise, test.name)
    example_runs, printed = ExampleRuns(None), PrintedLines()
    with example_runs.prepared(test, trial, printed) as examples, printed.collecting(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runs: list[tuple[str, Callable[[], Any]]] = [
            (example.key, partial(examples.run_one, example)) for example in recording.examples
        ]
        runs.append((PINNED, partial(run_pinned, test.function, examples.arguments)))
        for place in dict.fromkeys((USUAL, len(runs) - 1, *range(len(runs)))):
            key, run = runs[place]
            example_runs.replayed = iter(recording.runs[place:])
            try:
                run()
                continue
            except OutOfTime:
                trial.timeouts[test.exercise.name] = trial.timeouts.get(test.exercise.name, 0) + 1
            except KeyboardInterrupt:
                raise
            except BaseException:
                pass
            failing.append(key)
            if place in (USUAL, len(runs) - 1) or trial.timeouts.get(test.exercise.name, 0) >= TIMEOUTS_AN_EXERCISE:
                break
    if trial.end_test("passed"):  # a forbidden function fails the test, whatever the examples show
        return [PINNED]
    return failing
