"""Runs the examples of one test: from its recording if there is one, else those that hypothesis draws now.

Only those run that the test needs (`grader/verdict/needed_examples.py`). If one fails, hypothesis draws all of them
again, and all run: so what is reported is the same as without a recording.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
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
    example_key,
    has_own_examples,
    is_simplest,
    run_own_examples,
    run_pinned,
    seed_examples,
)
from grader.verdict.needed_examples import needed_of
from grader.verdict.recordings import Example, NotRecordable, Recording, Recordings
from grader.verdict.trial import Trial
from pytest_check import check, check_log

# the exceptions that end a test at once: hypothesis looks for no smaller example
_FINAL = (Todo, OutOfTime, HostDied, ChapterBroken)


class ExampleRuns:
    """Runs the examples of a trial's tests. Without `recordings`, hypothesis draws them every time."""

    def __init__(self, recordings: Recordings | None) -> None:
        self.recordings = recordings
        self.replayed: Iterator[RecordedExample] = iter(())  # the examples that run next
        self._reference: tuple[str, Trial] | None = None  # the chapter of the last recording, and its trial

    def close(self) -> None:
        if self._reference:
            self._reference[1].close()
            self._reference = None

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
        recordings = self._recordings_of(test, trial)
        try:
            with self.prepared(test, trial, printed) as examples:
                if not recordings:
                    examples.draw_common()
                    examples.draw_own()
                for seed, recording in recordings.items():
                    self._replay(examples, recording, own=seed != 0)
        except Todo as problem:
            if _is_stub(test.exercise, trial.target):
                trial.stubs[name] = str(problem)
            raise

    @contextmanager
    def prepared(
        self, test: GradedTest, trial: Trial, printed: Printed | None, after: Callable[[], None] | None = None
    ) -> Iterator[Examples]:
        """In this context each call of the test's function begins an example first, and calls `after` at its end."""
        sides = {"learner": trial.learner, "reference": trial.reference}
        arguments = {side: sides[side](test.exercise.chapter) for side in test.sides}
        handle = getattr(test.function, "hypothesis", None)
        body = handle.inner_test if handle else test.function

        @functools.wraps(body)
        def example(*args: Any, **kwargs: Any) -> Any:
            if printed:
                printed.drop()  # a failure shows what the example that fails has printed
            if not trial.begin_example(next(self.replayed, None)):
                with raise_first_mismatch():
                    body(*args, **kwargs)
            if after:
                after()

        if handle is None:
            yield Examples(test, trial, arguments, example)
            return
        handle.inner_test = example
        try:
            yield Examples(test, trial, arguments, test.function)
        finally:
            handle.inner_test = body

    def _replay(self, examples: Examples, recording: Recording, own: bool) -> None:
        """Run recorded examples. If one fails, the smallest that fails is found: the simplest if it does, else
        hypothesis draws all of this seed again. If nothing fails now, the code gives different answers to the same
        calls: it fails as before."""
        self.replayed = iter(recording.runs)
        try:
            examples.run(recording.examples, own)
        except Exception as problem:
            self.replayed = iter(())
            examples.trial.begin_test(examples.test.exercise, examples.test.name)
            if recording.simplest:
                examples.run_one(recording.simplest, own)
            examples.draw_own() if own else examples.draw_common()
            raise problem
        finally:
            self.replayed = iter(())

    def _recordings_of(self, test: GradedTest, trial: Trial) -> dict[int, Recording]:
        """The examples that this run needs, by their seed. A missing recording is made first. The result is empty for
        tests whose examples cannot be recorded: hypothesis draws them while they run."""
        if not test.is_of_course:
            return {}
        own = [trial.seed_of(test.exercise.name)] if has_own_examples(test.function) else []
        with suppress(NotRecordable):
            return {seed: self._recording(test, seed, trial) for seed in dict.fromkeys([0, *own])}
        return {}

    def _recording(self, test: GradedTest, seed: int, trial: Trial) -> Recording:
        if self.recordings is None:
            with self.prepared(test, trial, None) as examples:
                return examples.draw_needed(seed)
        found = self.recordings.find(test.id, seed)
        if found is None:
            found = self.record(test, seed, trial.seeds)
            self.recordings.store(test.id, seed, found)
        return found

    def record(self, test: GradedTest, seed: int, seeds: Mapping[str, int] = {}, every: bool = False) -> Recording:
        """A recording of this seed's examples that the test needs, or of all. The reference is tested, so nothing of
        the tested code is in it. NotRecordable if a value cannot be pickled."""
        trial = self._trial_of_reference(test.exercise.chapter)
        trial.seed, trial.seeds = seed, dict(seeds)
        trial.begin_test(test.exercise, test.name)
        runs: list[RecordedExample] = []
        with self.prepared(test, trial, None, lambda: runs.append(trial.recorded_example())) as examples:
            recording = Recording(examples.draw(seed)) if every else examples.draw_needed(seed)
            try:
                examples.run(recording.examples, own=seed != 0)
            except (Exception, *_FINAL):  # the reference is not there, or fails on this machine
                runs.clear()
                self.close()
        recording.runs = runs
        return recording

    def _trial_of_reference(self, chapter: str) -> Trial:
        """A trial of the reference: the last one, if it is of the same chapter, which is then imported already."""
        if self._reference is None or self._reference[0] != chapter:
            self.close()
            self._reference = chapter, Trial(resolve("solutions"), whole=True)
        return self._reference[1]


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
                self.draw_own()
            else:
                self.function(**self.arguments)
        finally:
            handle.inner_test = body
        return drawn

    def draw_needed(self, seed: int) -> Recording:
        """Of what hypothesis draws at this seed, the examples that the test needs."""
        drawn = self.draw(seed)
        simplest = next((example for example in drawn if example.simplest), None)
        return Recording(needed_of(self.test.exercise.name, self.test.name, drawn, seed), simplest)

    def draw_common(self) -> None:
        """Run the common examples as hypothesis draws them, and the pinned ones."""
        self.function(**self.arguments)
        run_pinned(self.function, self.arguments)

    def draw_own(self) -> None:
        """Run the examples of the run's own seed, if it has some, as hypothesis draws them."""
        run_own_examples(self.function, self.arguments, self.trial)

    def run(self, drawn: list[Example], own: bool) -> None:
        """Run these common examples, and the pinned ones; or these of the run's own seed."""
        for example in drawn:
            self.run_one(example, own)
        if not hasattr(self.function, "hypothesis"):
            self.function(**self.arguments)
        elif not own:
            run_pinned(self.function, self.arguments)

    def run_one(self, example: Example, own: bool = False) -> None:
        """Run the test on a drawn example."""
        comparing.current.sizes.clear()
        comparing.current.sizes.update(example.sizes)
        self.trial.own_examples = own
        try:
            self.function.hypothesis.inner_test(**self.arguments, **example.values())  # type: ignore[attr-defined]
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
