"""`with check:` in graded tests: all that is wrong is reported, only a mismatch is caught, and a caught one always fails the test."""

from pathlib import Path

import pytest
import torch
from grader.course.source import replace_definition
from grader.execution.errors import ChapterBroken, HostDied, LearnerError, OutOfTime, Todo
from grader.execution.target import Target
from grader.runner.example_runs import raise_first_mismatch
from grader.runner.graded_tests import graded_test
from grader.runner.judging import judge_of
from grader.runner.marks import exercise
from grader.verdict import comparing
from grader.verdict.comparing import Mismatch, close, holds, sizes
from grader.verdict.trial import Trial
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pytest_check import check
from pytest_runs import grade, module, solution

TWO_WRONG_GRADIENTS = """def linear_backward(x, weight, grad_out):
    rows, grads = x.reshape(-1, x.size(-1)), grad_out.reshape(-1, grad_out.size(-1))
    return grad_out @ weight, grads.T @ rows / 2, 2 * grads.sum(0)
"""
NUMBERS = {"first": 1.0, "second": 2.0}
ENDS_OF_A_TEST = (Todo("later"), OutOfTime("too late"), HostDied("gone"), ChapterBroken("broken"), KeyboardInterrupt(), SystemExit())
OTHERS = (*ENDS_OF_A_TEST, LearnerError("ValueError", "no"), RuntimeError("no"), AssertionError("plain"))


def result_of(body, softmax="def softmax(x, dim=-1):\n    return torch.softmax(x, dim)\n"):
    """The result of a graded test of softmax with this body."""
    chapter = f"import torch\n\n\n{softmax}"
    judge = judge_of(Trial(Target("some code", None, {module("ch03"): chapter}), whole=True))
    try:
        return judge.runner.run_test(graded_test(exercise("softmax")(body), Path("elsewhere/test_softmax.py")))
    finally:
        judge.close()


def test_two_wrong_gradients_are_reported_in_one_failure(tmp_path):
    (tmp_path / f"{module('ch13')}.py").write_text(replace_definition(solution("ch13"), "linear_backward", TWO_WRONG_GRADIENTS), encoding="utf-8")
    run = grade("--target", str(tmp_path), "--exercise", "linear_backward", results=tmp_path / "results.json")
    found = {test["name"]: test["message"] for test in run.exercise("linear_backward")["tests"]}
    sentence = "grad_weight came out wrong. grad_bias came out wrong. `got` and `expected` show the first one."
    assert found["test_linear_agrees_with_autograd"] == sentence and sentence in " ".join(run.out.split())
    assert not any("FAILURE" in line or "Failed Checks" in line for line in run.out.splitlines())  # what pytest-check itself would print


@pytest.mark.parametrize("drawn", [False, True])
@pytest.mark.parametrize("wrong", [(), ("first",), ("second",), ("first", "second")])
def test_a_test_passes_if_and_only_if_no_check_failed(wrong, drawn):
    def body(learner):
        for name, value in NUMBERS.items():
            with check:
                close(value + (name in wrong), value, name)

    def on_examples(learner, n):
        body(learner)

    result = result_of(given(n=st.integers(0, 3))(on_examples) if drawn else body)
    assert result.outcome == ("failed" if wrong else "passed")
    assert [name for name in NUMBERS if f"{name.title()} came out wrong." in result.message] == list(wrong)


def test_sentences_after_the_fourth_are_counted():
    def body(learner):
        for number in range(6):
            with check:
                holds(False, f"law {number} is violated")

    message = result_of(body).message
    assert message == "Law 0 is violated. Law 1 is violated. Law 2 is violated. Law 3 is violated. 2 more comparisons failed."


def test_the_smallest_example_is_still_found():
    @settings(max_examples=100)
    @given(n=st.integers(0, 1000))
    def body(learner, n):
        sizes(n=n)
        got = learner.softmax(torch.zeros(n))
        with check:
            holds(n < 7, "seven or more")
        with check:
            holds(len(got) < 5, "five or more")

    result = result_of(body)
    assert result.details.sizes == "n=5" and result.message == "Five or more."


@pytest.mark.parametrize("mismatch_before", [False, True])
def test_only_a_mismatch_is_caught(mismatch_before):
    for problem in OTHERS:
        comparing.new_test()
        with pytest.raises(BaseException) as raised, raise_first_mismatch():
            with check:
                holds(not mismatch_before, "a mismatch")
            with check:
                raise problem
            pytest.fail("the second check caught it")
        if mismatch_before and problem not in ENDS_OF_A_TEST:  # it may be a consequence of the mismatch
            assert isinstance(raised.value, Mismatch) and str(raised.value) == "a mismatch"
        else:
            assert raised.value is problem


def test_errors_of_the_code_in_a_check_keep_their_outcome():
    def body(learner):
        with check:
            close(learner.softmax(torch.zeros(2)), torch.zeros(2))
        raise AssertionError("the test went on")

    assert result_of(body, "def softmax(x, dim=-1):\n    raise NotImplementedError\n").outcome == "todo"
    broken = result_of(body, "def softmax(x, dim=-1):\n    return x[5]\n")
    assert broken.outcome == "failed" and "IndexError" in broken.message and "went on" not in broken.message


def test_an_example_with_a_mismatch_cannot_be_discarded():
    @given(n=st.integers(0, 3))
    def body(learner, n):
        with check:
            holds(n < 2, "two or more")
        assume(n < 2)

    assert result_of(body).message == "Two or more."


def test_the_functions_of_pytest_check_fail_a_test_too():
    assert result_of(lambda learner: check.equal(1, 2)).outcome == "failed"


def test_a_mismatch_of_one_test_fails_no_other():
    def wrong(learner):
        with check:
            holds(False, "wrong")

    assert [result_of(body).outcome for body in (wrong, lambda learner: None)] == ["failed", "passed"]
    assert not check.any_failures()  # or pytest-check would report it for this test
