"""Judges exercises by their graded tests, so that a mistake costs its own points only.

While one exercise is tested, the earlier ones of its chapter that it uses are the learner's where they pass all their
tests, and the reference's where they do not. What comes after it is always the learner's own: otherwise two exercises
that are each other's solution would both get their points.

A test runs first with the learner's own chapter. What its text shows to be not written is replaced from the beginning,
and so is what is known to fail. If the test fails, the states of the exercises that it uses are looked up, or found by
running their tests, and it runs again with those replaced that fail, and at last with nothing replaced. A test that
passes with the learner's own definitions or with the replaced ones is passed: replacing never takes a point away.
"""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from grader.course.source import SourceProblem, is_written
from grader.course.syllabus import SOLUTIONS, Exercise, earlier_in_chapter, load_syllabus, neighbours
from grader.execution.errors import ChapterBroken
from grader.execution.names_used import NamesUsed, closure, names_used
from grader.execution.target import Target, is_reference_definition, reference_of, replaceable_beside
from grader.reproduction.example import FailedExample
from grader.runner.example_runs import ExampleRuns
from grader.runner.graded_run import GradedRun
from grader.runner.graded_tests import GradedTest, all_tests_of
from grader.runner.printed import Printed, PrintedLines
from grader.verdict.last_verdicts import (
    LastVerdicts,
    code_fingerprint,
    find_verdict,
    load_verdicts,
    record_verdicts,
    run_conditions,
)
from grader.verdict.recordings import Recordings
from grader.verdict.results import NOT_IMPLEMENTED, ExerciseResult, TestResult
from grader.verdict.trial import TIMEOUTS_AN_EXERCISE, Traces, Trial

PASSED = "passed"  # a state of an exercise; the others are the keys of results.REASONS
MOST_ATTEMPTS = 4  # at one test: each may use names that the one before it did not reach


def run_exercise(exercise: Exercise, target: Target, **options: Any) -> ExerciseResult:
    """Judge one exercise of an implementation. The options are those of a Trial: `in_worker`, `whole`, `seed`."""
    with contextlib.closing(judge_of(Trial(target, **options))) as judge:
        judge.run_tests(judge.tests_of(exercise))
        judge.run.conclude()
        judge.record_states()
        return judge.run.results[exercise.name]


def judge_of(
    trial: Trial, recordings: Recordings | None = None, printed: Printed | None = None, **options: Any
) -> Judge:
    """What judges an implementation. The options are those of a GradedRun; without `recordings`, hypothesis draws every
    example."""
    return Judge(TestRunner(GradedRun(trial, **options), ExampleRuns(recordings), printed or PrintedLines()))


class Judge:
    """Runs the tests of one run, each up to a few times with other definitions replaced, until its outcome is
    decided."""

    def __init__(self, runner: TestRunner) -> None:
        self.runner, self.run = runner, runner.run
        self.states: dict[str, str] = {}  # of exercises whose tests were run for the sake of others
        self._texts: dict[str, str] = {}  # by module

    def close(self) -> None:
        """End the processes of the code, and the reference that was recorded."""
        for part in (self.runner.examples, self.run.trial, self.run.trial.pool):
            part.close()

    def may_replace(self, exercise: Exercise) -> bool:
        """Whether definitions may have to be replaced for the tests of this exercise."""
        trial = self.run.trial
        return not trial.whole and trial.target.folder != SOLUTIONS and reference_of(exercise.module) is not None

    def judge(self, test: GradedTest) -> Attempt:
        """The attempt that decides this test."""
        return self.final_attempt(test, self.first_attempt(test))

    def first_attempt(self, test: GradedTest) -> Attempt:
        """A test with everything replaced that is known to need it, without running other tests."""
        if not self.may_replace(test.exercise):
            return self.runner.attempt(test)
        failing = {name for name in earlier_in_chapter(test.exercise) if self._is_known_to_fail(name)}
        if failing:  # else the chapter need not be read for what it uses: a learner waits for that
            failing &= self._used_by(test.exercise, set()) | self._needed_at_import(test.exercise)
        return self._attempt(test, replaceable_beside(test.exercise, failing))

    def run_tests(
        self, tests: Sequence[GradedTest], begun: Callable[[GradedTest], None] = lambda _: None,
        decided: Callable[[GradedTest, list[TestResult]], None] = lambda *_: None
    ) -> None:  # fmt: skip
        """Judge these tests in their order; `decided` is called with the results of each."""
        for place, test in enumerate(tests):
            begun(test)
            decided(test, self.accept(self.judge(test)))
            self.end_chapter(test, tests[place + 1] if place + 1 < len(tests) else None)

    def accept(self, found: Attempt) -> list[TestResult]:
        """Make an attempt the verdict of its test, with the later exercises that it used and did not pass; returns its
        results."""
        run = self.run
        for name, tests in found.tests.items():
            exercise = load_syllabus().exercise(name)
            if not found.passed and self.may_replace(exercise):
                used = self._reached_by(exercise, found.names) & neighbours(exercise) - earlier_in_chapter(exercise)
                for test in [test for test in tests if test.outcome != "passed" and test.message != NOT_IMPLEMENTED]:
                    test.replaced = test.replaced | dict.fromkeys(sorted(used), "later")
            run.results.setdefault(name, ExerciseResult(exercise)).tests += tests
            run.shortcuts.setdefault(name, set()).update(found.shortcuts.get(name, ()))
        run.broken |= found.broken
        run.examples |= found.examples
        run.trial.add(found.traces)
        return [test for tests in found.tests.values() for test in tests]

    def end_chapter(self, test: GradedTest, following: GradedTest | None) -> None:
        """End the worker of a chapter after the last of its tests: a submission has one worker at a time."""
        if self.run.trial.in_worker and (following is None or following.exercise.chapter != test.exercise.chapter):
            self.run.trial.end_chapter(test.exercise.chapter)

    def tests_of(self, exercise: Exercise) -> list[GradedTest]:
        """All tests of an exercise, each counted in the run."""
        tests = all_tests_of(exercise)
        for test in tests:
            self.run.register(test)
        return tests

    def final_attempt(self, test: GradedTest, found: Attempt) -> Attempt:
        """The verdict after a first attempt: that one, or one with other definitions replaced."""
        exercise = test.exercise
        if found.cannot_change or not self.may_replace(exercise):
            return found
        last, tried = found, {found.replaced}
        for _ in range(MOST_ATTEMPTS):
            if last.cannot_change or self.run.trial.timeouts.get(exercise.name, 0) >= TIMEOUTS_AN_EXERCISE:
                break
            wanted = {name for name in self._used_by(exercise, last.names) if self._state(name) != PASSED}
            names = replaceable_beside(exercise, wanted | set(last.replaced))
            if names in tried:
                break
            tried.add(names)
            last = self._attempt(test, names)
        if last.passed:
            return last
        states = {name: self._known_state(name) for name in last.replaced}
        own = replaceable_beside(exercise, [name for name, state in states.items() if state == "not written"])
        if "timeout" in states.values():
            return last
        for names in dict.fromkeys([own, ()]):  # what counts as not written may be bound in a way that no text shows
            if names not in tried and (alone := self._attempt(test, names)).passed:
                return alone
        return last

    def record_states(self) -> None:
        """After the last test: record the states of this run's exercises, if they are the learner's."""
        run, states = self.run, dict(self.states)
        if run.trial.target.is_own_folder and not run.trial.whole:
            for name, result in run.results.items():
                if state := self._state_of_result(result, complete=True):
                    states[name] = state
            codes = {name: self._code(name) for name in states}
            record_verdicts(states, codes, run_conditions(run.trial.seed), run.results, run.broken)

    # ---- which definitions to replace

    def _attempt(self, test: GradedTest, names: tuple[str, ...]) -> Attempt:
        exercise, found = test.exercise, self.runner.attempt(test, names)
        used = self._used_by(exercise, found.names) if names else set()
        reasons = {name: self._known_state(name) or PASSED for name in names if name in used}
        for result in found.tests.get(exercise.name, ()):
            if result.outcome != "todo":
                result.replaced = reasons
        return found

    def _used_by(self, exercise: Exercise, names: set[str]) -> set[str]:
        """The earlier ones of those that it reaches."""
        return self._reached_by(exercise, names) & earlier_in_chapter(exercise)

    def _reached_by(self, exercise: Exercise, names: set[str]) -> set[str]:
        """The other exercises of the chapter that this one uses, or that its test uses by these names, directly or
        through others."""
        others = neighbours(exercise)
        known = self._names_in(exercise.module)
        if known is None:
            return names & others
        found = closure(known, {exercise.name, *names})
        # undefined names too
        used = found.union(*(known.used[statement] for statement in {known.statements[name] for name in found}))
        return (used | names) & others

    def _needed_at_import(self, exercise: Exercise) -> set[str]:
        """The earlier exercises without which the chapter does not import: stubs that it calls then, and deleted
        definitions that it names then."""
        known = self._names_in(exercise.module)
        if known is None:
            return set()
        called = closure(known, known.run_at_import) | known.run_at_import
        missing = known.needed_at_import - known.statements.keys()
        return {name for name in earlier_in_chapter(exercise) & (called | missing) if not self._is_written(name)}

    def _names_in(self, module: str) -> NamesUsed | None:
        with contextlib.suppress(SourceProblem):
            return names_used(self._text(module))
        return None

    # ---- the state of an exercise

    def _state(self, name: str) -> str:
        """`passed`, or why the exercise is to be replaced; its tests are run where that is not known."""
        if known := self._known_state(name):
            return known
        exercise = load_syllabus().exercise(name)
        reference, others = reference_of(exercise.module), frozenset(neighbours(exercise))
        # the reference's own definition passes, and replacing it would change nothing
        if reference and is_reference_definition(self._text(exercise.module), reference, name, others | {name}):
            return PASSED
        # judging it asks only for the states of exercises before it
        return self.states.setdefault(name, self._find_state(exercise))

    def _known_state(self, name: str) -> str | None:
        """Its state as far as it is known without running tests."""
        return self._state_in_run(name) or self._recorded_state(name)

    def _is_known_to_fail(self, name: str) -> bool:
        may_fail = any(verdict.state != PASSED for verdict in self._recorded.get(name, ()))
        return (self._known_state if may_fail else self._state_in_run)(name) not in (None, PASSED)

    def _state_in_run(self, name: str) -> str | None:
        result = self.run.results.get(name)
        in_run = (self._state_of_result(result) if result else None) or self.states.get(name)
        return in_run if in_run == PASSED or self._is_written(name) else "not written"

    def _find_state(self, exercise: Exercise) -> str:
        result = ExerciseResult(exercise)
        for test in self.tests_of(exercise):
            found = self.judge(test)
            result.tests += found.tests.get(exercise.name, ())
            if not found.passed:
                return _reason(found.outcomes, any(found.shortcuts.values()))
        return "forbidden" if self.run.forbidden_in_source(self._text(exercise.module), result) else PASSED

    def _state_of_result(self, result: ExerciseResult, complete: bool = False) -> str | None:
        """The state that the tests of this run show; None if too few have run. `complete`: only if all have run."""
        name = result.exercise.name
        outcomes = {test.outcome for test in result.tests}
        shortcut = bool(self.run.shortcuts.get(name) or result.forbidden)
        partial = self.run.weights.get(name, {}).keys() - {test.name for test in result.tests}
        if partial and (complete or outcomes <= {PASSED, "todo"}):
            return None
        if not shortcut and outcomes == {PASSED}:
            shortcut = bool(self.run.forbidden_in_source(self._text(result.exercise.module), result))
        return PASSED if outcomes == {PASSED} and not shortcut else _reason(outcomes, shortcut)

    def _is_written(self, name: str) -> bool:
        with contextlib.suppress(SourceProblem):
            return is_written(self._text(load_syllabus().exercise(name).module), name)
        return True  # the chapter does not import, which is said as that

    def _text(self, module: str) -> str:
        if module not in self._texts:
            target = self.run.trial.target
            try:
                self._texts[module] = target.source(module).text if target.has(module) else ""
            except ChapterBroken:
                self._texts[module] = ""
        return self._texts[module]

    # ---- the recorded verdicts

    @cached_property
    def _recorded(self) -> LastVerdicts:
        return load_verdicts() if self.run.trial.target.is_own_folder else {}

    def _recorded_state(self, name: str) -> str | None:
        """The recorded state of the exercise as it is now."""
        if name not in self._recorded:
            return None
        verdict = find_verdict(self._recorded, name, self._code(name), run_conditions(self.run.trial.seed))
        return {"todo": "failed"}.get(verdict.state, verdict.state) if verdict else None

    def _code(self, name: str) -> str:
        return code_fingerprint(self._text(load_syllabus().exercise(name).module), name)


def _reason(outcomes: set[str], shortcut: bool) -> str:
    if outcomes & {"timeout", "error"}:
        return "timeout"
    if outcomes == {"todo"}:
        return "not written"
    return "forbidden" if shortcut and outcomes <= {PASSED} else "failed"


# ---- one attempt at a test: its results, kept apart from the run's until it is accepted as the verdict


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
