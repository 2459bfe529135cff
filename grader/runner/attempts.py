"""One attempt at a test: its results, kept apart from the run's until it is accepted as the verdict."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from grader.reproduction.example import FailedExample
from grader.runner.example_runs import ExampleRuns
from grader.runner.graded_run import GradedRun
from grader.runner.graded_tests import GradedTest
from grader.runner.printed import Printed
from grader.verdict.results import NOT_IMPLEMENTED, TestResult
from grader.verdict.trial import Traces


@dataclass
class Attempt:
    """What one run of a test found, in whatever process it ran."""

    replaced: tuple[str, ...] = ()  # exercises whose reference was used
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
    def cannot_change(self) -> bool:
        """Whether other definitions in the chapter cannot change this outcome: the exercise itself is a stub, or the
        chapter does not import."""
        messages = {test.message for tests in self.tests.values() for test in tests}
        return self.passed or not self.tests or bool(self.broken) or messages == {NOT_IMPLEMENTED}


@dataclass
class TestRunner:
    """Runs one test at a time."""

    __test__ = False

    run: GradedRun
    examples: ExampleRuns
    printed: Printed
    # called while the exception that ended a test can be looked into
    on_problem: Callable[[GradedTest, BaseException], None] = lambda test, problem: None

    def attempt(self, test: GradedTest, replaced: tuple[str, ...] = ()) -> Attempt:
        """Run a test with these exercises replaced, without a trace in the run."""
        run = self.run
        known = run.results, run.shortcuts, run.broken, run.examples
        run.results, run.shortcuts, run.broken, run.examples = {}, {}, {}, {}
        try:
            with run.trial.separate_attempt(replaced) as traces:
                self.run_test(test)
                names = run.trial.names
            tests = {name: result.tests for name, result in run.results.items()}
            return Attempt(replaced, tests, run.shortcuts, run.broken, run.examples, traces, names)
        finally:
            run.results, run.shortcuts, run.broken, run.examples = known

    def run_test(self, test: GradedTest) -> TestResult:
        """Run a test with nothing replaced but what the trial replaces, and record its result in the run."""
        problem: BaseException | None = None
        self.run.trial.begin_test(test.exercise, test.name)
        began = time.perf_counter()
        try:
            with self.printed.collecting(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # those of libraries do not help a learner
                self.examples.run(test, self.run.trial, self.printed)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            problem = error
        seconds = time.perf_counter() - began
        result = self.run.record_test(test, seconds, problem, self.printed.text if problem else "")
        if problem and result.outcome not in ("passed", "todo"):
            self.on_problem(test, problem)
        return result
