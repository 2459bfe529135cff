"""Which tests a run is about: those of the selected chapters and exercises."""

from __future__ import annotations

import pytest
from grader.course.suites import tests_of
from grader.course.syllabus import TESTS, Exercise, load_syllabus
from grader.runner.graded_run import GradedRun
from grader.runner.judging import exercise_of


def is_wanted(exercise: Exercise, run: GradedRun) -> bool:
    return (not run.chapters or exercise.chapter in run.chapters) and (not run.names or exercise.name in run.names)


def register_unselected(items: list[pytest.Item], run: GradedRun) -> None:
    """Register all tests of an exercise's suites, even if only some were selected (`pytest FILE::TEST`, `--lf`): one test is not the whole exercise."""
    exercises = [exercise for item in items if (exercise := exercise_of(item)) and item.path.resolve().parent == TESTS]
    for chapter in {exercise.chapter for exercise in exercises}:
        for test, (name, weight) in tests_of(chapter).items():
            if name in run.weights and test not in {known.partition("[")[0] for known in run.weights[name]}:
                run.register_test(load_syllabus().exercise(name), test, weight)
