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

    def preload(self, item: pytest.Item) -> bool:
        """Read the recording of a test's common examples into memory, where processes forked from this one find it; whether there is one."""
        return self.recordings is not None and self.recordings.find(item.nodeid, 0) is not None

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
        test, fixtures, (exercise, _) = item.obj, fixtures_of(item), trial.running
        own_seed = trial.seed_of(exercise.name) if has_own_examples(test) else None
        recordings = self.recordings if item.path.parent == TESTS else None
        if recordings is None:
            _draw_all(test, fixtures, trial)
            return
        if (common := recordings.find(item.nodeid, 0)) is None:
            with self._recording(item, 0, trial):
                test(**fixtures)
                self._drawn = None
                run_pinned(test, fixtures)
        elif problem := _replay_common(item, trial, common):
            _draw_again(item, trial, problem)
        if own_seed is None:
            return
        if (own := recordings.find(item.nodeid, own_seed)) is None:
            with self._recording(item, own_seed, trial):
                run_own_examples(test, fixtures, trial)
        elif problem := _replay_own(item, trial, own):
            _draw_again(item, trial, problem)

    @contextmanager
    def _recording(self, item: pytest.Function, seed: int, trial: Trial) -> Iterator[None]:
        """Record the examples of this context, and store them if all of them pass."""
        recording, self._recordable = Recording(), True
        self._drawn, trial.answers_to_record = recording.examples, recording.answers
        try:
            yield
            if self.recordings and self._recordable and not comparing.current.mismatches:
                self.recordings.store(item.nodeid, seed, recording)
        finally:
            self._drawn = trial.answers_to_record = None

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


def _draw_again(item: pytest.Function, trial: Trial, problem: Exception) -> None:
    """Have hypothesis find the smallest example that fails. If nothing fails now, the code gives different answers to the same calls: it fails as before."""
    trial.begin_test(*trial.running)
    _draw_all(item.obj, fixtures_of(item), trial)
    raise problem


def _replay_common(item: pytest.Function, trial: Trial, recording: Recording) -> Exception | None:
    """Run the recorded common examples and the pinned ones. Return the exception of one where hypothesis might find a smaller one; raise any other."""
    test, fixtures = item.obj, fixtures_of(item)
    with _answers_of(recording, trial):
        if not hasattr(test, "hypothesis"):
            test(**fixtures)
            return None
        problem = _run_examples(test, fixtures, recording.examples)
        if problem is None:
            run_pinned(test, fixtures)
        return problem


def _replay_own(item: pytest.Function, trial: Trial, recording: Recording) -> Exception | None:
    """The same with the examples of the run's own seed."""
    trial.own_examples = True
    try:
        with _answers_of(recording, trial):
            return _run_examples(item.obj, fixtures_of(item), recording.examples)
    finally:
        trial.own_examples = False


@contextmanager
def _answers_of(recording: Recording, trial: Trial) -> Iterator[None]:
    """In this context the reference's answers are the recorded ones, as far as they fit."""
    trial.recorded_answers = iter(recording.answers)
    try:
        yield
    finally:
        trial.recorded_answers = iter(())


def _run_examples(test: Any, fixtures: dict[str, Any], examples: list[Example]) -> Exception | None:
    """Run recorded examples until one fails. Its exception is raised if hypothesis would look for no smaller example, or find none; else returned."""
    for example in examples:
        comparing.current.sizes.clear()
        comparing.current.sizes.update(example.sizes)
        try:
            test.hypothesis.inner_test(**fixtures, **example.values())
        except _FINAL:
            raise
        except Exception as problem:
            if example.simplest or not looks_for_smaller(test):
                raise
            return problem
    return None
