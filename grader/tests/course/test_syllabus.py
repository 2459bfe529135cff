"""One test is not the whole exercise: what a partial run prints, and what it records."""

import ast
import re

import pytest
from grader.course.syllabus import TESTS
from grader.course.syllabus import tests_in as graded_in
from pytest_runs import grade

SUITES = sorted(TESTS.glob("test_ch*.py"))
ONE = "tests/test_ch03_attention.py::test_minus_infinity_gets_no_weight"


def decorated(suite):
    """The same text as Python reads it."""
    found = {}
    for node in ast.parse(suite.read_text(encoding="utf-8")).body:
        for mark in getattr(node, "decorator_list", ()):
            if isinstance(mark, ast.Call) and getattr(mark.func, "id", "") == "exercise":
                weights = [float(keyword.value.value) for keyword in mark.keywords]
                found[node.name] = (mark.args[0].value, *(weights or [1.0]))
    return found


def test_every_graded_test_is_found_with_its_exercise_and_weight():
    assert sum(len(graded_in(suite)) for suite in SUITES) > 600
    for suite in SUITES:
        assert graded_in(suite) == decorated(suite), suite.name


def test_a_partial_run_is_reported_as_partial_and_not_recorded(kit):
    """One test by its name, one file of several, and some tests by a word, on a narrow terminal."""
    kit.solve("ch03_attention")
    kit.solve("ch09_sampling")
    for path, name, ran in ((ONE, "softmax", 1), ("tests/test_ch09_sampling_generate_randomness.py", "generate", 3)):
        run = grade(path, cwd=kit.root, PYTHONPATH=str(kit.root), results=kit.root / "out.json")
        assert run.status == 0, run.out
        assert re.search(rf"^  {name} +[\d.]+/\d+ +only {ran} of \d+ tests ran$", run.out, re.M)
        result = run.exercise(name)
        assert 0 < result["earned"] < result["points"] and len(result["tests"]) == ran and f"{name} works" not in run.out
    out = grade("-k", "minus_infinity or positions_of_the_keys or equal_values", "--chapter", "ch03", cwd=kit.root, PYTHONPATH=str(kit.root), COLUMNS="40").out
    points = out[out.index("── points") : out.index("\nNext:")]
    assert all(len(line) <= 40 for line in points.splitlines()) and re.search(r"^  softmax +[\d.]+/10\n    only 2 of 8 tests ran$", points, re.M)
    assert not (kit.exercises / "progress.txt").exists()


@pytest.mark.thorough
def test_if_a_partial_run_of_the_next_exercise_passes_all_its_tests_come_next(kit):
    kit.solve("ch03_attention")
    out = grade(ONE, cwd=kit.root, PYTHONPATH=str(kit.root)).out
    assert "Next: run all tests of softmax; the tests that ran have passed\n      headway check softmax" in out
    kit.edit("ch03_attention", "exps / total", "exps * total")
    out = grade("-k", "minus_infinity", cwd=kit.root, PYTHONPATH=str(kit.root)).out
    assert re.search(r"^  softmax +[\d.]+/10 +2 failed, only 2 of 8 ran$", out, re.M) and "Next: fix softmax" in out
