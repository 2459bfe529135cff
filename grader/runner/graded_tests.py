"""All graded tests of an exercise as pytest's items, also those that a run has not collected or selected."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from grader.course.suites import tests_in
from grader.course.syllabus import TESTS, Exercise, suites_of
from grader.runner.graded_run import GradedRun


def note_collected(run: GradedRun, items: Iterable[pytest.Item]) -> None:
    """Remember the collected tests by their file, before any is deselected."""
    for item in items:
        if item.get_closest_marker("exercise") and item.path.resolve().parent == TESTS:
            run.collected.setdefault(item.path.name, {})[item.name] = item


def items_of(run: GradedRun, exercise: Exercise) -> list[pytest.Item]:
    """All tests of this exercise, in the order of its files."""
    found: list[pytest.Item] = []
    for suite in suites_of(exercise.chapter):
        expected = {test for test, (name, _) in tests_in(suite).items() if name == exercise.name}
        if expected:
            items = run.collected.setdefault(suite.name, {})
            if expected - {name.partition("[")[0] for name in items}:
                items |= {item.name: item for item in _collect(run, suite)}
            found += [item for item in items.values() if item.name.partition("[")[0] in expected]
    for item in found:
        run.wrap_test(item)
    return found


def _collect(run: GradedRun, suite) -> list[pytest.Item]:
    neighbour = next(item for items in run.collected.values() for item in items.values())
    module = neighbour.getparent(pytest.Module)
    assert module is not None and module.parent is not None
    known = {name for name in run.collected.get(suite.name, ())}
    collected = pytest.Module.from_parent(module.parent, path=suite).collect()
    return [item for item in collected if isinstance(item, pytest.Item) and item.get_closest_marker("exercise") and item.name not in known]
