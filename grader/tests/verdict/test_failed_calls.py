"""A failure shows the call whose value the assertion used, and the learner's own function if a helper of the test made the call."""

import functools

import pytest
import torch
from grader.course.chapter_source import ChapterSource
from grader.execution.in_process import InProcessHost
from grader.execution.proxy import Boundary, Implementation, gradients, parameters
from grader.verdict import comparing
from grader.verdict.comparing import close, holds, refuses, same
from grader.verdict.explanation import explain_failure

CHAPTER = '''
import torch
from torch import nn


def half(x):
    return x / 2


def rate(step):
    return 0.5


def count(text):
    return len(text)


def pair(x):
    return x + 1, [x + 2]


def nothing(x):
    return None


def broken(x):
    raise ValueError(f"not {x}")


class Scale(nn.Module):
    def __init__(self, by):
        super().__init__()
        self.by = nn.Parameter(torch.tensor(float(by)))

    def forward(self, x):
        return x * self.by

    def grow(self):
        with torch.no_grad():
            self.by += 1
'''


@pytest.fixture
def learner():
    boundary = Boundary(InProcessHost([ChapterSource("toy", CHAPTER, "toy.py")], "toy", 1.0, 10.0))
    boundary.begin(0)
    comparing.new_test()
    yield Implementation(boundary)
    boundary.connection.close()


def shows(*lines: str):
    """The failure of this test shows these lines as `called`."""

    def decorate(test):
        @functools.wraps(test)
        def run(learner):
            with pytest.raises(Exception) as caught:
                test(learner)
            assert explain_failure(caught.value, "p", learner._boundary, comparing.current).called == list(lines)

        return run

    return decorate


def x(number):
    return torch.arange(4.0) + number


@shows("half(torch.tensor([1.0, 2.0, 3.0, 4.0]))")
def test_the_call_that_returned_the_value_and_not_the_last_one(learner):
    got = [learner.half(x(k)) for k in range(5)]
    close(got[1], x(9), "the value")


@shows("pair(torch.tensor([0.0, 1.0, 2.0, 3.0]))")
def test_a_part_of_a_value_leads_to_its_call(learner):
    first, others = learner.pair(x(0)), learner.pair(x(7))
    learner.half(x(3))
    assert others is not None
    close(first[1][0][2:], x(9)[2:], "two of its values")


@shows("rate(2)")
def test_equal_numbers_of_several_calls_are_not_confused(learner):
    rates = [learner.rate(step) for step in range(6)]
    for step, got in enumerate(rates):
        close(got, 0.5 if step < 2 else 0.75, f"the rate at step {step}")


@shows("half(torch.tensor([1.0, 2.0, 3.0, 4.0]))", "half(torch.tensor([2.0, 3.0, 4.0, 5.0]))")
def test_a_value_that_the_test_computed_leads_to_the_calls_that_it_came_from(learner):
    first, second = learner.half(x(1)), learner.half(x(2))
    learner.half(x(3))
    distance = (first - second).abs().sum()
    holds(distance > 100, "they are close together")


@shows("count('four')")
def test_small_numbers_lead_to_their_call_by_the_line_that_made_it(learner):
    wrong = learner.count("four")
    right = learner.count("six")
    holds(right == 3, "three letters")
    same(wrong, 5, "the number")


@shows("count('ccc')")
def test_in_a_loop_only_the_last_round_counts(learner):
    for text in ("a", "bb", "ccc", "dddd"):
        holds(learner.count(text) < 3, "short texts only")


@shows("count('')", "count('a')", "… and 7 more calls")
def test_facts_about_many_calls_show_a_few_of_them(learner):
    counts = [learner.count("a" * n) for n in range(9)]
    holds(sum(counts) == 0, "nothing was counted")


@shows("broken(7)")
def test_an_error_that_is_raised_later_leads_to_the_call_that_raised_it(learner):
    try:
        learner.broken(7)
    except ValueError as problem:
        saved = problem
    learner.half(x(0))
    raise saved


@shows("half(torch.tensor([4.0, 5.0, 6.0, 7.0]))")
def test_a_call_that_should_have_raised_an_error(learner):
    results = [learner.half(x(4)), learner.half(x(5))]
    refuses(lambda: results[0])


@shows("Scale(2).grow()")
def test_what_is_read_from_an_object_leads_to_the_last_call_with_it(learner):
    scale, other = learner.Scale(2), learner.Scale(5)
    scale.grow()
    by = parameters(scale)["by"]
    other(x(0))
    close(by, torch.tensor(9.0), "the factor")


@shows("half(torch.tensor([1.0, 2.0, 3.0, 4.0]))")
def test_gradients_lead_to_their_call(learner):
    found = gradients(learner.half, x(1))
    learner.half(x(8))
    close(found.inputs[0], x(0), "the gradient")


def helper(f, number):
    """Call the learner's function, as tests do that need a mode or a count around it."""
    with torch.no_grad():
        return f(torch.arange(3.0) + number)


def helper_that_fails(f, number):
    return f(number).nothing


@shows("half(torch.tensor([5.0, 6.0, 7.0]))")
def test_a_helper_of_the_test_is_not_shown_but_the_call_in_it(learner):
    close(learner.bring(helper)(learner.half, 5), torch.zeros(3), "the value")


@shows("Scale(…)(torch.ones(5))")
def test_what_an_object_inherits_is_no_call_of_the_learners_code(learner):
    def helper(scale, n):
        value = scale(torch.ones(n))
        list(scale.parameters()), scale.train()
        return value

    close(learner.bring(helper)(learner.Scale(3), 5), torch.zeros(3), "the value")


def helper_without_calls(number):
    """Make something that the test needs."""
    return [number]


@shows("nothing([5])")
def test_a_helper_that_calls_nothing_is_not_shown(learner):
    prepared = learner.bring(helper_without_calls)(5)
    missing = learner.nothing(prepared)
    close(missing, torch.ones(3), "the value")


def test_an_error_in_a_helper_names_the_learners_function(learner):
    comparing.new_example()
    with pytest.raises(AttributeError) as caught:
        learner.bring(helper_that_fails)(learner.count, "abc")
    words = explain_failure(caught.value, "p", learner._boundary, comparing.current)
    assert words.called == ["count('abc')"]
    assert words.message.startswith("count returned a value with which the test cannot continue (AttributeError: 'int' object has no attribute 'nothing'")


def test_an_error_of_the_learners_code_in_a_helper_is_the_learners(learner):
    comparing.new_example()
    with pytest.raises(ValueError) as caught:
        learner.bring(helper)(learner.broken, 1)
    words = explain_failure(caught.value, "p", learner._boundary, comparing.current)
    assert words.called[0] == "broken(torch.tensor([1.0, 2.0, 3.0]))" and words.message.startswith("broken raised ValueError")


def test_gradients_of_a_result_of_the_wrong_shape_are_the_sentence_of_a_wrong_shape(learner):
    comparing.new_example()
    with pytest.raises(Exception) as caught:
        gradients(learner.half, x(0), cotangent=torch.ones(2, 3))
    words = explain_failure(caught.value, "p", learner._boundary, comparing.current)
    with pytest.raises(Exception) as elsewhere:
        close(learner.half(x(0)), torch.ones(2, 3))
    assert words.message == "The result has shape (4,); it should be (2, 3)." == explain_failure(
        elsewhere.value, "p", learner._boundary, comparing.current
    ).message  # fmt: skip
    assert words.called == ["half(torch.tensor([0.0, 1.0, 2.0, 3.0]))"] and not words.where
