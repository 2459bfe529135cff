"""Assertions that keep what they compared, and the words a learner gets for them."""

import pytest
import torch
from grader import comparing
from grader.chapter import ChapterSource
from grader.comparing import Mismatch, close, holds, refuses, same, shaped
from grader.door.errors import mirrored
from grader.door.local import Local
from grader.door.near import Call, Door, Implementation
from grader.explaining import failure


@pytest.fixture(autouse=True)
def _new_example():
    comparing.new_test()
    yield
    comparing.new_test()


def wrong(check, *args, **kwargs):
    with pytest.raises(Mismatch) as caught:
        check(*args, **kwargs)
    return caught.value


X = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))


def test_equal_up_to_rounding_is_close():
    close(X * (1 + 1e-7), X)
    close([X, (1.0, {"a": X})], [X, (1.0, {"a": X})])
    close(torch.tensor([float("nan"), float("inf"), 1.0]), torch.tensor([float("nan"), float("inf"), 1.0]))
    close(X.bfloat16() * 1.01, X.bfloat16())


@pytest.mark.parametrize(
    "got",
    [
        None, "text", [1.0], object(), X.T, X.double(), X + 1e-3, X.int(), X * float("nan"), X.masked_fill(X > 0, float("inf")), X[:2],
        torch.zeros_like(X), X.to("meta"),
    ],
)  # fmt: skip
def test_anything_else_is_a_mismatch(got):
    assert wrong(close, got, X, "the output").sentence.startswith("The output")


def test_rounding_is_judged_by_the_size_of_the_whole():
    close(torch.tensor([1000.0, 0.001]), torch.tensor([1000.0, 0.0]))
    wrong(close, torch.tensor([1.0, 0.001]), torch.tensor([1.0, 0.0]))


def test_same_is_exact_and_knows_kinds():
    same([1, 2], [1, 2])
    same(torch.tensor(3), 3)
    same({"a": 1, "b": 2}, {"a": 1, "b": 2})
    for got, expected in [([1, 2], (1, 2)), (True, 1), (1, True), ({"b": 2, "a": 1}, {"a": 1, "b": 2}), (torch.ones(2), [1, 1]), ("a", ["a"])]:
        wrong(same, got, expected)


def test_shaped_returns_the_tensor():
    assert shaped(X, (3, 5)) is X
    assert "(5, 3)" in wrong(shaped, X, (5, 3)).sentence
    assert "float64" in wrong(shaped, X, (3, 5), "the output", torch.float64).sentence


def test_holds_says_its_sentence():
    holds(True, "never said")
    assert wrong(holds, False, "No weight may be negative.").sentence == "No weight may be negative."


def test_refuses_wants_the_right_error_with_the_numbers_in_it():
    def raising(kind, message):
        def call():
            raise mirrored(kind)(kind, message)

        return call

    refuses(raising("ValueError", "7 is not divisible by 2"), naming=(7, 2))
    refuses(raising("AssertionError", "7 % 2"), naming=(7, 2))
    assert "should name 2" in wrong(refuses, raising("ValueError", "7 is odd"), naming=(7, 2)).sentence
    assert "raised RuntimeError" in wrong(refuses, raising("RuntimeError", "shape mismatch"), naming=(7,)).sentence
    assert "returned None" in wrong(refuses, lambda: None).sentence


def test_a_failure_puts_the_promise_the_call_and_the_relation_into_words():
    comparing.sizes(B=3, T=5)
    problem = wrong(close, X * 2, X, "the output")
    words = failure(problem, "The output is right.", Call("f", (X,), {"dim": -1}, X * 2), comparing.current)
    assert words.promise == "The output is right."
    assert words.sizes == "B=3 T=5"
    assert words.called[0] == "f(tensor 3x5, dim=-1)"
    assert words.message == "The output came out wrong."
    assert "2" in words.explanation and "times" in words.explanation
    assert words.difference == ""  # fifteen values are shown whole, and what relates them is said


def test_what_a_test_stumbles_over_is_said_of_the_answer():
    words = failure(AttributeError("'NoneType' object has no attribute 'sum'"), "p", Call("f", (1,), {}, None), comparing.current)
    assert words.message.startswith("f returned None; the test cannot go on with that")


@pytest.mark.parametrize(("text", "kind"), [("def states():\n    yield 1\n", "generator"), ("class Stream:\n    pass\n\n\nstates = Stream\n", "Stream")])
def test_an_object_that_came_back_is_told_by_its_kind(text, kind):
    """Not by the call that made it, which the learner knows."""
    door = Door(Local([ChapterSource("toy", text, "toy.py")], "toy", 1.0, 10.0))
    door.begin(0)
    got = Implementation(door).states()
    door.far.close()
    assert wrong(close, got, X).sentence == f"The result should be a tensor; it is an object ({kind})"
    assert wrong(shaped, got, (3, 5)).sentence == f"The result should be a tensor of shape (3, 5); it is an object ({kind})"
