"""Runs the examples of one test: from its recording if there is one, else as hypothesis draws them.

A recording is made of a run in which every example passed. If an example of a recording fails that might not be the smallest one, hypothesis draws
all of them again: what is reported is the same as without a recording.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from grader.course.stubs import is_stub
from grader.course.syllabus import TESTS, Exercise
from grader.execution.errors import ChapterBroken, HostDied, OutOfTime, Todo
from grader.execution.target import Target
from grader.plugin.pytest_internals import drop_output, fixtures_of
from grader.verdict import comparing
from grader.verdict.examples import has_own_examples, run_own_examples, run_pinned
from grader.verdict.hypothesis_internals import is_simplest, looks_for_smaller
from grader.verdict.recordings import Example, NotRecordable, Recording, Recordings
from grader.verdict.trial import Trial

_FINAL = (Todo, OutOfTime, HostDied, ChapterBroken, KeyboardInterrupt)  # they end a test at once: hypothesis looks for no smaller example


class ExampleRuns:
    """Runs the examples of a trial's tests. Without `recordings`, hypothesis draws them every time."""

    def __init__(self, recordings: Recordings | None) -> None:
        self.recordings = recordings
        self._drawn: list[Example] | None = None  # while a recording is made: what hypothesis has drawn
        self._recordable = True

    def each_example(self, function: Callable[..., Any], item: pytest.Function, begin: Callable[[], None]) -> Callable[..., Any]:
        """The test's function, for one example: it begins the example first."""

        @functools.wraps(function)
        def example(*args: Any, **kwargs: Any) -> Any:
            if self._drawn is not None:
                self._note(kwargs, fixtures_of(item))
            drop_output(item.config)  # a failure shows what the example that fails has printed
            begin()
            return function(*args, **kwargs)

        return example

    def run(self, item: pytest.Function, trial: Trial) -> None:
        """Run all examples of a test; raise what the first one that fails raises.

        Once a test of an unchanged stub, or of a chapter that is not there, has ended with Todo, the exercise's other tests end so too, without running.
        """
        exercise, _ = trial.running
        if exercise.name in trial.stubs:
            raise Todo(trial.stubs[exercise.name])
        try:
            self._run(item, trial)
        except Todo as problem:
            if _is_stub(exercise, trial.target):
                trial.stubs[exercise.name] = str(problem)
            raise

    def _run(self, item: pytest.Function, trial: Trial) -> None:
        test, fixtures = item.obj, fixtures_of(item)
        recorded = self._find(item, trial)
        if recorded is None:
            self._draw_and_record(item, trial)
            return
        problem = self._replay(item, trial, recorded)
        if problem is not None:
            exercise, name = trial.running
            trial.begin_test(exercise, name)
            _draw_all(test, fixtures, trial)
            raise problem  # nothing fails when it is drawn again: the code gives different answers to the same calls

    # ---- replaying

    def _find(self, item: pytest.Function, trial: Trial) -> list[Recording] | None:
        if self.recordings is None or item.path.parent != TESTS:
            return None
        found = [self.recordings.find(item.nodeid, seed) for seed in _seeds(item.obj, trial)]
        return [recording for recording in found if recording] if all(found) else None

    def _replay(self, item: pytest.Function, trial: Trial, recorded: list[Recording]) -> Exception | None:
        """Run the recorded examples. Return the exception of one that fails where hypothesis might find a smaller one; raise any other."""
        test, fixtures, common = item.obj, fixtures_of(item), recorded[0]
        inner = test.hypothesis.inner_test if hasattr(test, "hypothesis") else test
        try:
            trial.recorded = iter(common.answers)
            if inner is test:
                test(**fixtures)
            for example in common.examples:
                if problem := _run_example(inner, fixtures, example, final=example.simplest or not looks_for_smaller(test)):
                    return problem
            run_pinned(test, fixtures)
            for own in recorded[1:]:
                trial.recorded, trial.own_examples = iter(own.answers), True
                for example in own.examples:
                    if problem := _run_example(inner, fixtures, example, final=example.simplest or not looks_for_smaller(test)):
                        return problem
            return None
        finally:
            trial.recorded, trial.own_examples = iter(()), False

    # ---- recording

    def _draw_and_record(self, item: pytest.Function, trial: Trial) -> None:
        test, fixtures = item.obj, fixtures_of(item)
        if self.recordings is None or item.path.parent != TESTS:
            _draw_all(test, fixtures, trial)
            return
        self._recordable, made = True, []
        with self._recording(trial) as recording:
            made.append(recording)
            test(**fixtures)
            self._drawn = None
            run_pinned(test, fixtures)
        if has_own_examples(test):
            with self._recording(trial) as recording:
                made.append(recording)
                run_own_examples(test, fixtures, trial)
        if self._recordable and not comparing.current.mismatches:
            for seed, recording in zip(_seeds(test, trial), made, strict=True):
                self.recordings.store(item.nodeid, seed, recording)

    @contextmanager
    def _recording(self, trial: Trial) -> Iterator[Recording]:
        recording = Recording()
        self._drawn, trial.noted = recording.examples, recording.answers
        try:
            yield recording
        finally:
            self._drawn = trial.noted = None

    def _note(self, arguments: dict[str, Any], fixtures: dict[str, Any]) -> None:
        assert self._drawn is not None
        drawn = {name: value for name, value in arguments.items() if name not in fixtures}
        if not drawn:
            return
        try:
            self._drawn.append(Example.of(drawn, comparing.current.sizes, is_simplest()))
        except NotRecordable:
            self._recordable = False


def _is_stub(exercise: Exercise, target: Target) -> bool:
    if target.override_in(exercise.module):
        return False
    return not target.has(exercise.module) or is_stub(exercise, target.source(exercise.module).text)


def _draw_all(test: Any, fixtures: dict[str, Any], trial: Trial) -> None:
    """Run the common examples as hypothesis draws them, the pinned ones, and those of the run's own seed."""
    test(**fixtures)
    run_pinned(test, fixtures)
    run_own_examples(test, fixtures, trial)


def _run_example(inner: Callable[..., Any], fixtures: dict[str, Any], example: Example, final: bool) -> Exception | None:
    """Run one recorded example; return its exception, or raise it if it is `final`: hypothesis would look for no smaller example, or find none."""
    comparing.current.sizes.clear()
    comparing.current.sizes.update(example.sizes)
    try:
        inner(**fixtures, **example.values())
    except _FINAL:
        raise
    except Exception as problem:
        if final:
            raise
        return problem
    return None


def _seeds(test: Any, trial: Trial) -> list[int]:
    """The seeds whose examples this test runs: 0, and the run's own."""
    return [0, trial.seed_of(trial.running[0].name)] if has_own_examples(test) else [0]
