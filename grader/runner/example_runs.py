"""Runs the examples of one test. An example continues after a mismatch in `with check:`, and fails at its end."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from grader.course.stubs import is_stub
from grader.course.syllabus import Exercise
from grader.execution.errors import Todo
from grader.execution.target import Target
from grader.runner.graded_tests import GradedTest
from grader.runner.printed import Printed
from grader.verdict import comparing
from grader.verdict.comparing import Mismatch
from grader.verdict.examples import run_own_examples, run_pinned, seed_examples
from grader.verdict.trial import Trial
from pytest_check import check, check_log


def run_examples(test: GradedTest, trial: Trial, printed: Printed) -> None:
    """Run all examples of a test; raise what the first one that fails raises.

    Once a test of an unchanged stub, or of a chapter that is not there, has ended with Todo, the exercise's other
    tests end so too, without running.
    """
    name, function = test.exercise.name, test.function
    if name in trial.stubs:
        raise Todo(trial.stubs[name])
    sides = {"learner": trial.learner, "reference": trial.reference}
    implementations = {side: sides[side](test.exercise.chapter) for side in test.sides}
    try:
        if not hasattr(function, "hypothesis"):
            _as_example(function, trial, printed)(**implementations)
            return
        seed_examples(function, test.name, trial.seed_of(name))
        with _examples_of(function, trial, printed):
            function(**implementations)  # the examples that hypothesis draws
            run_pinned(function, implementations)
            run_own_examples(function, implementations, trial)
    except Todo as problem:
        if _is_stub(test.exercise, trial.target):
            trial.stubs[name] = str(problem)
        raise


@contextmanager
def _examples_of(function: Any, trial: Trial, printed: Printed) -> Iterator[None]:
    """In this context what hypothesis calls begins an example first."""
    body = function.hypothesis.inner_test
    function.hypothesis.inner_test = _as_example(body, trial, printed)
    try:
        yield
    finally:
        function.hypothesis.inner_test = body


def _as_example(body: Any, trial: Trial, printed: Printed) -> Any:
    @functools.wraps(body)
    def example(*args: Any, **kwargs: Any) -> Any:
        printed.drop()  # a failure shows what the example that fails has printed
        trial.begin_example()
        with raise_first_mismatch():
            return body(*args, **kwargs)

    return example


def _is_stub(exercise: Exercise, target: Target) -> bool:
    return not target.has(exercise.module) or is_stub(exercise, target.source(exercise.module).text)


# ---- `with check:` of pytest-check, which otherwise reports its failures through hooks of pytest


@contextmanager
def raise_first_mismatch() -> Iterator[None]:
    """In this context `with check:` catches a Mismatch and no other exception; at the end the first Mismatch is raised,
    whatever Exception followed it."""
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
