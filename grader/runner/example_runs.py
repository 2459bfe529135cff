"""Runs the examples of one test: from its recording if there is one, else as hypothesis draws them.

A recording is made of a run in which every example passed. If an example of a recording fails that might not be the
smallest one, hypothesis draws all of them again: what is reported is the same as without a recording.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from grader.course.stubs import is_stub
from grader.course.syllabus import Exercise
from grader.execution.errors import ChapterBroken, HostDied, OutOfTime, Todo
from grader.execution.target import Target
from grader.runner.graded_tests import GradedTest
from grader.runner.printed import Printed
from grader.verdict import comparing
from grader.verdict.comparing import Mismatch
from grader.verdict.examples import (
    has_own_examples,
    is_simplest,
    looks_for_smaller,
    run_own_examples,
    run_pinned,
    seed_examples,
)
from grader.verdict.recordings import Example, NotRecordable, Recording, Recordings
from grader.verdict.trial import Trial
from pytest_check import check, check_log

# they end a test at once: hypothesis looks for no smaller example
_FINAL = (Todo, OutOfTime, HostDied, ChapterBroken, KeyboardInterrupt)


class ExampleRuns:
    """Runs the examples of a trial's tests. Without `recordings`, hypothesis draws them every time."""

    def __init__(self, recordings: Recordings | None) -> None:
        self.recordings = recordings
        self._drawn: list[Example] | None = None  # while a recording is made: what hypothesis has drawn
        self._recordable = True

    def run(self, test: GradedTest, trial: Trial, printed: Printed) -> None:
        """Run all examples of a test; raise what the first one that fails raises.

        Once a test of an unchanged stub, or of a chapter that is not there, has ended with Todo, the exercise's other
        tests end so too, without running.
        """
        name = test.exercise.name
        if name in trial.stubs:
            raise Todo(trial.stubs[name])
        if hasattr(test.function, "hypothesis"):
            seed_examples(test.function, test.name, trial.seed_of(name))
        try:
            with self._examples(test, trial, printed) as examples:
                self._run(examples)
        except Todo as problem:
            if _is_stub(test.exercise, trial.target):
                trial.stubs[name] = str(problem)
            raise

    @contextmanager
    def _examples(self, test: GradedTest, trial: Trial, printed: Printed) -> Iterator[_Examples]:
        """In this context each call of the test's function begins an example first."""
        sides = {"learner": trial.learner, "reference": trial.reference}
        arguments = {side: sides[side](test.exercise.chapter) for side in test.sides}
        handle = getattr(test.function, "hypothesis", None)
        body = handle.inner_test if handle else test.function

        @functools.wraps(body)
        def example(*args: Any, **kwargs: Any) -> Any:
            if self._drawn is not None:
                self._note(kwargs, arguments)
            printed.drop()  # a failure shows what the example that fails has printed
            trial.begin_example()
            with raise_first_mismatch():
                return body(*args, **kwargs)

        if handle is None:
            yield _Examples(test, trial, arguments, example)
            return
        handle.inner_test = example
        try:
            yield _Examples(test, trial, arguments, test.function)
        finally:
            handle.inner_test = body

    def _run(self, examples: _Examples) -> None:
        test, trial = examples.test, examples.trial
        recordings = self.recordings if test.is_of_course else None
        if recordings is None:
            examples.draw_all()
            return
        if (common := recordings.find(test.id, 0)) is None:
            with self._recording(test, 0, trial):
                examples.function(**examples.arguments)
                self._drawn = None
                run_pinned(examples.function, examples.arguments)
        elif problem := examples.replay_common(common):
            examples.draw_again(problem)
        if not has_own_examples(examples.function):
            return
        own_seed = trial.seed_of(test.exercise.name)
        if (own := recordings.find(test.id, own_seed)) is None:
            with self._recording(test, own_seed, trial):
                run_own_examples(examples.function, examples.arguments, trial)
        elif problem := examples.replay_own(own):
            examples.draw_again(problem)

    @contextmanager
    def _recording(self, test: GradedTest, seed: int, trial: Trial) -> Iterator[None]:
        """Record the examples of this context, and store them if all of them pass."""
        recording, self._recordable = Recording(), True
        self._drawn, trial.answers_to_record = recording.examples, recording.answers
        try:
            yield
            if self.recordings and self._recordable and not comparing.current.mismatches:
                self.recordings.store(test.id, seed, recording)
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


@dataclass(frozen=True)
class _Examples:
    """The examples of one test in one trial."""

    test: GradedTest
    trial: Trial
    arguments: dict[str, Any]  # the implementations that the test asks for
    function: Callable[..., Any]  # runs all that hypothesis draws, or the one example there is

    def draw_all(self) -> None:
        """Run the common examples as hypothesis draws them, the pinned ones, and those of the run's own seed."""
        self.function(**self.arguments)
        run_pinned(self.function, self.arguments)
        run_own_examples(self.function, self.arguments, self.trial)

    def draw_again(self, problem: Exception) -> None:
        """Have hypothesis find the smallest example that fails. If nothing fails now, the code gives different answers
        to the same calls: it fails as before."""
        self.trial.begin_test(self.test.exercise, self.test.name)
        self.draw_all()
        raise problem

    def replay_common(self, recording: Recording) -> Exception | None:
        """Run the recorded common examples and the pinned ones. Return the exception of one where hypothesis might find
        a smaller one; raise any other."""
        with self._answers_of(recording):
            if not hasattr(self.function, "hypothesis"):
                self.function(**self.arguments)
                return None
            problem = self._run_recorded(recording.examples)
            if problem is None:
                run_pinned(self.function, self.arguments)
            return problem

    def replay_own(self, recording: Recording) -> Exception | None:
        """The same with the examples of the run's own seed."""
        self.trial.own_examples = True
        try:
            with self._answers_of(recording):
                return self._run_recorded(recording.examples)
        finally:
            self.trial.own_examples = False

    @contextmanager
    def _answers_of(self, recording: Recording) -> Iterator[None]:
        """In this context the reference's answers are the recorded ones, as far as they fit."""
        self.trial.recorded_answers = iter(recording.answers)
        try:
            yield
        finally:
            self.trial.recorded_answers = iter(())

    def _run_recorded(self, examples: list[Example]) -> Exception | None:
        """Run recorded examples until one fails. Its exception is raised if hypothesis would look for no smaller
        example, or find none; else returned."""
        for example in examples:
            comparing.current.sizes.clear()
            comparing.current.sizes.update(example.sizes)
            try:
                self.function.hypothesis.inner_test(**self.arguments, **example.values())  # type: ignore[attr-defined]
            except _FINAL:
                raise
            except Exception as problem:
                if example.simplest or not looks_for_smaller(self.function):
                    raise
                return problem
        return None


def _is_stub(exercise: Exercise, target: Target) -> bool:
    return not target.has(exercise.module) or is_stub(exercise, target.source(exercise.module).text)


# ---- `with check:` of pytest-check: an example continues after a mismatch, and fails at its end


@contextmanager
def raise_first_mismatch() -> Iterator[None]:
    """In this context `with check:` catches a Mismatch and no other exception; at the end the first Mismatch is raised,
    whatever Exception followed it. pytest-check reports its failures through hooks of pytest, which a graded test
    runs without."""
    check_log.clear_failures()
    check.set_max_report(sys.maxsize)  # pytest-check calls the function below only for failures that it reports
    check.set_max_tb(0)  # its tracebacks take time, and the report does not show them
    check.call_on_fail(_raise_unless_mismatch)
    try:
        yield
    except Exception:
        if not comparing.current.mismatches:
            raise
    finally:
        check_log.clear_failures()
    if comparing.current.mismatches:
        raise comparing.current.mismatches[0]


def _raise_unless_mismatch(message: str) -> None:
    """pytest-check calls this in `check.__exit__`, before it discards the exception; its newer versions would discard
    even KeyboardInterrupt."""
    problem = sys.exc_info()[1]  # None after `check.equal` and the like, which leave no Mismatch
    if not isinstance(problem, Mismatch):
        raise problem or AssertionError(message)
