"""Runs the examples of one test: from its recording if there is one, else those that hypothesis draws now.

Only those run that the test needs (`grader/verdict/needed_examples.py`). A recording is made of a run in which every
example passed. If an example fails that might not be the smallest one, hypothesis draws all of them again, and all run.
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
    example_key,
    has_own_examples,
    is_simplest,
    looks_for_smaller,
    run_own_examples,
    run_pinned,
    seed_examples,
)
from grader.verdict.needed_examples import needed_of
from grader.verdict.recordings import Example, NotRecordable, Recording, Recordings
from grader.verdict.trial import Trial
from pytest_check import check, check_log

# they end a test at once: hypothesis looks for no smaller example
_FINAL = (Todo, OutOfTime, HostDied, ChapterBroken, KeyboardInterrupt)


class ExampleRuns:
    """Runs the examples of a trial's tests. Without `recordings`, hypothesis draws them every time."""

    def __init__(self, recordings: Recordings | None) -> None:
        self.recordings = recordings

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
            with self.prepared(test, trial, printed) as examples:
                self._run(examples)
        except Todo as problem:
            if _is_stub(test.exercise, trial.target):
                trial.stubs[name] = str(problem)
            raise

    @contextmanager
    def prepared(self, test: GradedTest, trial: Trial, printed: Printed) -> Iterator[Examples]:
        """In this context each call of the test's function begins an example first."""
        sides = {"learner": trial.learner, "reference": trial.reference}
        arguments = {side: sides[side](test.exercise.chapter) for side in test.sides}
        handle = getattr(test.function, "hypothesis", None)
        body = handle.inner_test if handle else test.function

        @functools.wraps(body)
        def example(*args: Any, **kwargs: Any) -> Any:
            printed.drop()  # a failure shows what the example that fails has printed
            trial.begin_example()
            with raise_first_mismatch():
                return body(*args, **kwargs)

        if handle is None:
            yield Examples(test, trial, arguments, example)
            return
        handle.inner_test = example
        try:
            yield Examples(test, trial, arguments, test.function)
        finally:
            handle.inner_test = body

    def _run(self, examples: Examples) -> None:
        test, recordings = examples.test, self.recordings
        if not test.is_of_course:
            examples.draw_all()
            return
        own_seed = examples.trial.seed_of(test.exercise.name) if has_own_examples(examples.function) else 0
        for seed in dict.fromkeys((0, own_seed)):
            try:
                recording = recordings.find(test.id, seed) if recordings else None
                problem = examples.replay(recording, seed) if recording else _record(recordings, examples, seed)
            except NotRecordable:
                examples.draw_all()
                return
            if problem:
                examples.draw_again(problem, seed)


@dataclass(frozen=True)
class Examples:
    """The examples of one test in one trial."""

    test: GradedTest
    trial: Trial
    arguments: dict[str, Any]  # the implementations that the test asks for
    function: Callable[..., Any]  # runs all that hypothesis draws, or the one example there is

    def draw(self, seed: int) -> list[Example]:
        """What hypothesis draws at this seed: the common examples, or the run's own. The test itself does not run.
        NotRecordable if a value cannot be pickled."""
        handle = getattr(self.function, "hypothesis", None)
        if handle is None:
            return []
        drawn: list[Example] = []
        body = handle.inner_test

        @functools.wraps(body)
        def note(**values: Any) -> None:
            arguments = {name: value for name, value in values.items() if name not in self.arguments}
            drawn.append(Example.of(arguments, comparing.current.sizes, is_simplest(), example_key()))

        handle.inner_test = note
        try:
            if seed:
                run_own_examples(self.function, self.arguments, self.trial)
            else:
                self.function(**self.arguments)
        finally:
            handle.inner_test = body
        return drawn

    def draw_all(self) -> None:
        """Run the common examples as hypothesis draws them, the pinned ones, and those of the run's own seed."""
        self._draw_common()
        run_own_examples(self.function, self.arguments, self.trial)

    def _draw_common(self) -> None:
        self.function(**self.arguments)
        run_pinned(self.function, self.arguments)

    def draw_again(self, problem: Exception, seed: int) -> None:
        """Have hypothesis draw the examples of this seed and find the smallest that fails. If nothing fails now, the
        code gives different answers to the same calls: it fails as before."""
        self.trial.begin_test(self.test.exercise, self.test.name)
        if seed:
            run_own_examples(self.function, self.arguments, self.trial)
        else:
            self._draw_common()
        raise problem

    def replay(self, recording: Recording, seed: int) -> Exception | None:
        """Run these examples of a seed, and after the common ones the pinned ones; the reference's answers are the
        recorded ones, as far as they fit. Return the exception of an example where hypothesis might find a smaller one;
        raise any other."""
        trial = self.trial
        trial.own_examples, trial.recorded_answers = bool(seed), iter(tuple(recording.answers))
        try:
            if not hasattr(self.function, "hypothesis"):
                self.function(**self.arguments)
                return None
            problem = self._run_recorded(recording.examples)
            if problem is None and not seed:
                run_pinned(self.function, self.arguments)
            if problem and recording.simplest:  # if it fails too, hypothesis would report it
                trial.recorded_answers = iter(())
                self._run_recorded([recording.simplest])
            return problem
        finally:
            trial.own_examples, trial.recorded_answers = False, iter(())

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


def _record(recordings: Recordings | None, examples: Examples, seed: int) -> Exception | None:
    """Draw the examples of this seed and run those that the test needs; store them if they pass. Returns what `replay`
    does."""
    recording, trial, test = Recording(), examples.trial, examples.test
    drawn = examples.draw(seed)
    recording.examples = needed_of(test.exercise.name, test.name, drawn, seed)
    recording.simplest = next((one for one in drawn if one.simplest and one not in recording.examples), None)
    trial.answers_to_record = recording.answers
    try:
        problem = examples.replay(recording, seed)
    finally:
        trial.answers_to_record = None
    if recordings and problem is None and not comparing.current.mismatches:
        recordings.store(test.id, seed, recording)
    return problem


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
