"""The graded tests of an exercise, as functions of `learner` and `reference`."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from grader.course.syllabus import TESTS, Exercise, load_syllabus, suites_of, tests_in
from grader.runner.marks import mark_of
from grader.verdict.comparing import refuses
from grader.verdict.examples import collect_pinned, skip_database_key, use_headway_profile

SIDES = ("learner", "reference")  # all that a graded test may ask for


class NotATest(Exception):
    """A marked function that cannot be a graded test; the message says why."""


class NoTests(Exception):
    """The tests cannot be loaded; the message says why, in a sentence."""


@dataclass(frozen=True, eq=False)
class GradedTest:
    name: str
    exercise: Exercise
    weight: float
    function: Callable[..., Any]
    suite: Path

    @property
    def id(self) -> str:
        return f"tests/{self.suite.name}::{self.name}"

    @property
    def is_of_course(self) -> bool:
        """Whether it is one of the course's own tests, and not in another folder."""
        return self.suite.parent == TESTS

    @property
    def promise(self) -> str:
        """What the test promises, in a sentence."""
        return " ".join((self.function.__doc__ or self.name).split())

    @cached_property
    def is_about_error(self) -> bool:
        """Whether the test is about an error that a call should raise: then it uses the assertion `refuses`."""
        drawn = getattr(self.function, "hypothesis", None)  # the function that hypothesis calls with each example
        return refuses.__name__ in (drawn.inner_test if drawn else self.function).__code__.co_names

    @cached_property
    def sides(self) -> tuple[str, ...]:
        """Which implementations the test asks for."""
        return tuple(name for name in SIDES if name in inspect.signature(self.function).parameters)


def graded_test(function: Any, suite: Path) -> GradedTest:
    """A marked function as a test that can run; UnknownName if its exercise is not in the syllabus."""
    mark = mark_of(function)
    if mark is None:
        raise NotATest(f"{function.__name__} has no mark @exercise(NAME)")
    if hasattr(function, "hypothesis") and not hasattr(function.hypothesis, "pinned"):
        collect_pinned(function)
        skip_database_key(function)
    test = GradedTest(function.__name__, load_syllabus().exercise(mark.exercise), mark.weight, function, suite)
    if others := set(inspect.signature(function).parameters) - set(SIDES):
        raise NotATest(
            f"{test.name} asks for {', '.join(sorted(others))}; a graded test takes only learner, "
            "reference and what hypothesis draws for it"
        )
    return test


def all_tests_of(exercise: Exercise) -> list[GradedTest]:
    """All tests of this exercise, in the order of its files; other suites are not imported."""
    suites = [
        suite
        for suite in suites_of(exercise.chapter)
        if any(name == exercise.name for name, _ in tests_in(suite).values())
    ]
    return [test for suite in suites for test in tests_in_suite(suite) if test.exercise.name == exercise.name]


@cache
def tests_in_suite(suite: Path) -> tuple[GradedTest, ...]:
    """The graded tests of one file."""
    return tuple(_marked(import_suite(suite), suite))


def _marked(module: ModuleType, suite: Path) -> Iterator[GradedTest]:
    for name, found in vars(module).items():
        if name.startswith("test") and mark_of(found) is not None:
            yield graded_test(found, suite)


def import_suite(suite: Path) -> ModuleType:
    use_headway_profile()  # hypothesis settles a test's settings when it is defined
    if str(TESTS) not in sys.path:
        sys.path.insert(0, str(TESTS))
    try:
        return importlib.import_module(suite.stem)
    except Exception as problem:
        raise NoTests(
            f"the tests in {suite.name} cannot be loaded ({type(problem).__name__}: {problem}); `pytest "
            "--collect-only` shows where"
        ) from problem
