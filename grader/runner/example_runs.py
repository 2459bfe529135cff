"""Runs the examples of one test: from its recording if there is one, else as hypothesis draws them.

The examples of a run in which all pass are recorded. If an example of a recording fails, hypothesis draws all of them
again: what is reported is the same as without a recording.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from grader.course.stubs import is_stub
from grader.course.syllabus import Exercise
from grader.execution.errors import ChapterBroken, HostDied, OutOfTime, Todo
from grader.execution.example_requests import RecordedExample
from grader.execution.target import Target, resolve
from grader.runner.graded_tests import GradedTest
from grader.runner.printed import Printed
from grader.verdict import comparing
from grader.verdict.comparing import Mismatch
from grader.verdict.examples import (
    has_own_examples,
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
        self._replayed: Iterator[RecordedExample] = iter(())  # the examples that run next

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
        new: dict[int, list[Example]] = {}
        try:
            with self._examples(test, trial, printed) as examples:
                self._run(examples, new)
        except Todo as problem:
            if _is_stub(test.exercise, trial.target):
                trial.stubs[name] = str(problem)
            raise
        for seed, drawn in new.items():
            self._record(test, seed, drawn, trial.seeds)

    @contextmanager
    def _examples(
        self, test: GradedTest, trial: Trial, printed: Printed | None, after: Callable[[], object] = bool
    ) -> Iterator[_Examples]:
        """In this context each call of the test's function begins an example first, and calls `after` at its end."""
        sides = {"learner": trial.learner, "reference": trial.reference}
        arguments = {side: sides[side](test.exercise.chapter) for side in test.sides}
        handle = getattr(test.function, "hypothesis", None)
        body = handle.inner_test if handle else test.function

        @functools.wraps(body)
        def example(*args: Any, **kwargs: Any) -> Any:
            if self._drawn is not None:
                self._note(kwargs, arguments)
            if printed:
                printed.drop()  # a failure shows what the example that fails has printed
            if not trial.begin_example(next(self._replayed, None)):
                with raise_first_mismatch():
                    body(*args, **kwargs)
            after()

        if handle is None:
            yield _Examples(test, trial, arguments, example)
            return
        handle.inner_test = example
        try:
            yield _Examples(test, trial, arguments, test.function)
        finally:
            handle.inner_test = body

    def _run(self, examples: _Examples, new: dict[int, list[Example]]) -> None:
        """Run all; what hypothesis draws for a seed without a recording is added to `new`."""
        test, trial = examples.test, examples.trial
        recordings = self.recordings if test.is_of_course else None
        if recordings is None:
            examples.draw_all()
            return
        if common := recordings.find(test.id, 0):
            self._replay(examples, common, own=False)
        else:
            with self._noting_drawn(0, new):
                examples.function(**examples.arguments)
            run_pinned(examples.function, examples.arguments)
        if not has_own_examples(examples.function):
            return
        seed = trial.seed_of(test.exercise.name)
        if own := recordings.find(test.id, seed):
            self._replay(examples, own, own=True)
        else:
            with self._noting_drawn(seed, new):
                run_own_examples(examples.function, examples.arguments, trial)

    def _replay(self, examples: _Examples, recording: Recording, own: bool) -> None:
        """Run recorded examples. If one fails, hypothesis draws all examples of the test again, and finds the smallest
        that fails. If nothing fails now, the code gives different answers to the same calls: it fails as before."""
        self._replayed = iter(recording.runs)
        try:
            examples.run_recorded(recording.examples, own)
        except _FINAL:
            raise
        except Exception as problem:
            self._replayed = iter(())
            examples.trial.begin_test(examples.test.exercise, examples.test.name)
            examples.draw_all()
            raise problem
        finally:
            self._replayed = iter(())

    @contextmanager
    def _noting_drawn(self, seed: int, new: dict[int, list[Example]]) -> Iterator[None]:
        """In this context, note what hypothesis draws; if all examples pass, it can be recorded."""
        self._drawn, self._recordable = [], True
        try:
            yield
            if self._recordable:
                new[seed] = self._drawn
        finally:
            self._drawn = None

    def _record(self, test: GradedTest, seed: int, drawn: list[Example], seeds: dict[str, int]) -> None:
        """Run these examples on the reference, so that nothing of the tested code is recorded, and store them with what
        the test requests."""
        recording = Recording(drawn)
        with closing(Trial(resolve("solutions"), whole=True, seed=seed, seeds=seeds)) as trial:
            trial.begin_test(test.exercise, test.name)

            def add() -> None:
                recording.runs.append(trial.recorded_example())

            with self._examples(test, trial, None, add) as examples, suppress(Exception):
                examples.run_recorded(drawn, own=seed != 0)
        assert self.recordings
        self.recordings.store(test.id, seed, recording)

    def _note(self, arguments: dict[str, Any], fixtures: dict[str, Any]) -> None:
        assert self._drawn is not None
        drawn = {name: value for name, value in arguments.items() if name not in fixtures}
        if not drawn:
            return
        try:
            self._drawn.append(Example.of(drawn, comparing.current.sizes))
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

    def run_recorded(self, drawn: list[Example], own: bool) -> None:
        """Run the common examples that are recorded, and the pinned ones; or those of the run's own seed."""
        self.trial.own_examples = own
        try:
            for example in drawn:
                comparing.current.sizes.clear()
                comparing.current.sizes.update(example.sizes)
                self.function.hypothesis.inner_test(**self.arguments, **example.values())  # type: ignore[attr-defined]
            if not hasattr(self.function, "hypothesis"):
                self.function(**self.arguments)
            elif not own:
                run_pinned(self.function, self.arguments)
        finally:
            self.trial.own_examples = False


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
