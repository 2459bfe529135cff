"""One attempt at a test: its reports and results, kept apart from the run's until it is accepted as the verdict."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from grader.course.syllabus import load_syllabus
from grader.plugin.pytest_internals import reset_fixtures, run_test
from grader.reproduction.example import FailedExample
from grader.runner.graded_run import GradedRun
from grader.verdict.results import NOT_IMPLEMENTED, ExerciseResult, TestResult
from grader.verdict.traces import Traces


@dataclass
class Attempt:
    """What one run of a test found, in whatever process it ran."""

    replaced: tuple[str, ...] = ()  # exercises whose reference was used
    reports: list[pytest.TestReport] = field(default_factory=list)
    tests: dict[str, list[TestResult]] = field(default_factory=dict)  # by exercise
    shortcuts: dict[str, set[str]] = field(default_factory=dict)
    broken: dict[str, Any] = field(default_factory=dict)
    examples: dict[tuple[str, str], FailedExample] = field(default_factory=dict)
    traces: Traces = field(default_factory=Traces)
    names: set[str] = field(default_factory=set)  # of the learner's chapter that the test used

    @property
    def outcomes(self) -> set[str]:
        return {test.outcome for tests in self.tests.values() for test in tests}

    @property
    def passed(self) -> bool:
        return self.outcomes == {"passed"} and not any(self.shortcuts.values())

    @property
    def ran_out_of_time(self) -> bool:
        return "timeout" in self.outcomes

    @property
    def cannot_change(self) -> bool:
        """Whether other definitions in the chapter cannot change this outcome: the exercise itself is a stub, or the chapter does not import."""
        messages = {test.message for tests in self.tests.values() for test in tests}
        return self.passed or not self.tests or bool(self.broken) or messages == {NOT_IMPLEMENTED}


def attempt(run: GradedRun, item: pytest.Item, replaced: tuple[str, ...] = ()) -> Attempt:
    """Run a test with these exercises replaced, without a trace in the run."""
    trial = run.trial
    known = run.results, run.shortcuts, run.broken, run.examples
    run.results, run.shortcuts, run.broken, run.examples = {}, {}, {}, {}
    assert isinstance(item, pytest.Function)
    reset_fixtures(item)
    try:
        with trial.separate_attempt(replaced) as traces:
            reports = run_test(item, None)
            names = trial.names
        tests = {name: result.tests for name, result in run.results.items()}
        return Attempt(replaced, reports, tests, run.shortcuts, run.broken, run.examples, traces, names)
    finally:
        run.results, run.shortcuts, run.broken, run.examples = known


def accept(run: GradedRun, found: Attempt) -> None:
    """Make an attempt the verdict of its test."""
    for name, tests in found.tests.items():
        run.results.setdefault(name, ExerciseResult(load_syllabus().exercise(name))).tests += tests
        run.shortcuts.setdefault(name, set()).update(found.shortcuts.get(name, ()))
    run.broken |= found.broken
    run.examples |= found.examples
    run.trial.add(found.traces)
