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


def test_a_run_of_some_files_names_what_it_left_out(kit):
    """The points are those of the exercises that ran, and the page says so; `headway check` and --exercise leave out on purpose."""

    def page(*arguments):
        return " ".join(grade(*arguments, cwd=kit.root, PYTHONPATH=str(kit.root)).out.split())

    kit.solve("ch01_tokenizer")
    out = page("tests/test_ch01_tokenizer.py")
    assert "ch01 Tokenizer 28/28 2 of 7 exercises build_vocab 10/10 passed" in out
    others = "test_ch01_tokenizer_bpe.py and test_ch01_tokenizer_splitting.py"
    assert f"This run left out the chapter's tests in {others}; `pytest --chapter ch01` runs all." in out
    out = page(ONE)
    assert "1 of 11 exercises softmax is not implemented yet This run left out the chapter's tests in 5 files; `pytest --chapter ch03` runs all." in out
    out = page("--exercise", "build_vocab")
    assert "ch01 Tokenizer 10/10 1 of 7 exercises" in out and "left out" not in out


def test_the_name_of_an_exercise_is_a_keyword_of_its_tests(kit):
    """None of these tests has count_bigrams in its name."""
    file = "tests/test_ch00_first_model.py"
    collected = grade(file, "--collect-only", "-q", "-k", "count_bigrams", cwd=kit.root, PYTHONPATH=str(kit.root)).out
    names = set(re.findall(r"::(\w+)", collected))
    suite = graded_in(TESTS / "test_ch00_first_model.py")
    assert names == {test for test, (exercise, _) in suite.items() if exercise == "count_bigrams"} and "-k selects by" not in collected
    for word, advice in (("avrage_loss", "did you mean -k average_loss?"), ("xyzzy", "`headway list` lists the exercises.")):
        run = grade(file, "-k", word, cwd=kit.root, PYTHONPATH=str(kit.root))
        sentence = f"and no test has '{word}' there; {advice}"
        assert run.status == 5 and sentence in " ".join(run.out.split())


@pytest.mark.thorough
def test_if_a_partial_run_of_the_next_exercise_passes_all_its_tests_come_next(kit):
    kit.solve("ch03_attention")
    out = grade(ONE, cwd=kit.root, PYTHONPATH=str(kit.root)).out
    assert "Next: run all tests of `softmax`; the tests that ran have passed\n      headway check softmax" in out
    kit.edit("ch03_attention", "exps / total", "exps * total")
    out = grade("-k", "minus_infinity", cwd=kit.root, PYTHONPATH=str(kit.root)).out
    assert re.search(r"^  softmax +[\d.]+/10 +2 failed, only 2 of 8 ran$", out, re.M) and "Next: fix `softmax`" in out
