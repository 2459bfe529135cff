"""Assertions that record what they compared, and the message that a learner gets for them."""

import pytest
import torch
from grader.course.chapter_source import ChapterSource
from grader.execution.errors import mirrored
from grader.execution.in_process import InProcessHost
from grader.execution.proxy import Boundary, Call, Implementation
from grader.verdict import comparing
from grader.verdict.comparing import Mismatch, close, holds, refuses, same, shaped
from grader.verdict.explanation import explain_failure


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


def test_anything_else_is_a_mismatch():
    for got in (
        None, "text", [1.0], object(), X.T, X.double(), X + 1e-3, X.int(), X * float("nan"), X.masked_fill(X > 0, float("inf")), X[:2],
        torch.zeros_like(X), X.to("meta"),
    ):  # fmt: skip
        assert wrong(close, got, X, "the output").sentence.startswith("The output")


def test_rounding_is_measured_against_the_size_of_the_whole():
    close(torch.tensor([1000.0, 0.001]), torch.tensor([1000.0, 0.0]))
    wrong(close, torch.tensor([1.0, 0.001]), torch.tensor([1.0, 0.0]))


def test_same_is_exact_and_distinguishes_types():
    same([1, 2], [1, 2])
    same(torch.tensor(3), 3)
    same({"a": 1, "b": 2}, {"a": 1, "b": 2})
    for got, expected in [([1, 2], (1, 2)), (True, 1), (1, True), ({"b": 2, "a": 1}, {"a": 1, "b": 2}), (torch.ones(2), [1, 1]), ("a", ["a"])]:
        wrong(same, got, expected)


def test_shaped_returns_the_tensor_and_holds_reports_its_sentence():
    assert shaped(X, (3, 5)) is X
    assert "(5, 3)" in wrong(shaped, X, (5, 3)).sentence
    assert "float64" in wrong(shaped, X, (3, 5), "the output", torch.float64).sentence
    holds(True, "never said")
    assert wrong(holds, False, "No weight may be negative.").sentence == "No weight may be negative."


def raising(kind, message):
    def call():
        raise mirrored(kind)(kind, message)

    return call


WIDTH = {"d_model": 17, "n_heads": 2}
COPIED = '`raise ValueError(f"d_model = {d_model} is not possible with n_heads = {n_heads}")`'


def test_an_error_may_name_its_numbers_in_any_words():
    for message in (
        "17 is not divisible by 2", "d_model=17, n_heads=2", "a tensor of shape (3,2,17)", "17.0 % 2", "17 % 2 = 1", "3x17, 2 heads.", "17/2 is not whole"
    ):  # fmt: skip
        for kind in ("ValueError", "AssertionError"):
            refuses(raising(kind, message), naming=(17, 2))
            refuses(raising(kind, message), naming=WIDTH)
    for message in ("", "170 and 2", "17 heads", "1.7 and 2", "17.5 and 2", "0.2 of 17", "d_model does not fit"):
        problem = wrong(refuses, raising("ValueError", message), naming=WIDTH)
        assert ("does not contain" if message else "without a message") in problem.sentence, "a number inside another number is not named"
    for value, message in (
        (0, "temperature 0.0"), (-0.75, "it is -0.75"), (-1, "layer \N{MINUS SIGN}1"), (3, "1-3"), (12345, "12,345 tokens"), (12345, "12_345"),
        (0.5, "p=0.50"), (1e-6, "1e-06"), ("elu", "activation='elu'"),
    ):  # fmt: skip
        refuses(raising("ValueError", message), naming=(value,))
    assert "does not contain elu" in wrong(refuses, raising("ValueError", "use gelu or relu"), naming=("elu",)).sentence
    assert "does not contain -1" in wrong(refuses, raising("ValueError", "layer 1"), naming=(-1,)).sentence
    refuses(raising("AssertionError", ""))  # a bare assert is enough if no number is required


def test_a_missing_error_is_explained_with_a_line_to_copy():
    """Which error is expected, what its message must name, what happened instead, and a line that does it right."""
    because = "d_model = 17 cannot be cut into 2 equal heads"
    wanted = f"{because}, so the call should raise ValueError with d_model = 17 and n_heads = 2 in its message. It "
    last = f". For example: {COPIED}"
    assert wrong(refuses, lambda: None, naming=WIDTH, because=because).sentence == f"{wanted}returned None{last}"
    assert wrong(refuses, raising("RuntimeError", "bad shape."), naming=WIDTH, because=because).sentence == f"{wanted}raised RuntimeError: bad shape{last}"
    assert wrong(refuses, raising("TypeError", ""), naming=WIDTH, because=because).sentence == f"{wanted}raised TypeError without a message{last}"


def test_an_error_without_the_numbers_is_explained_with_a_line_to_copy():
    problem = wrong(refuses, raising("ValueError", "17 is odd"), naming=WIDTH, because="b")
    wanted = "b, so the call should raise ValueError with d_model = 17 and n_heads = 2 in its message. It raised"
    assert problem.sentence == f"{wanted} ValueError: 17 is odd, and the message does not contain n_heads = 2. For example: {COPIED}"
    problem = wrong(refuses, raising("AssertionError", ""), naming=WIDTH, because="b")
    assert problem.sentence == f"{wanted} AssertionError without a message. For example: {COPIED}"


def test_the_line_to_copy_fits_the_case():
    assert '`raise ValueError("seq_len is 0")`' in wrong(refuses, lambda: None, because="seq_len is 0").sentence
    assert '`raise ValueError(f"max_len = {max_len} is short")`' in wrong(refuses, lambda: None, {"max_len": 9}, example="max_len = {max_len} is short").sentence
    assert '`raise ValueError(f"activation = {activation!r} is not possible")`' in wrong(refuses, lambda: None, {"activation": "elu"}).sentence
    assert "`raise KeyError(f" in wrong(refuses, lambda: None, {"word": "zebra"}, (KeyError,)).sentence
    assert "returned None" in wrong(refuses, lambda: None).sentence


def test_an_exception_of_the_learners_own_is_the_builtin_that_it_inherits_from():
    text = "class ShapeError(ValueError):\n    pass\n\n\nclass Loud(Exception):\n    pass\n\n\ndef width(D):\n    raise (ShapeError if D else Loud)(f'width {D}')\n"
    boundary = Boundary(InProcessHost([ChapterSource("toy", text, "toy.py")], "toy", 1.0, 10.0))
    boundary.begin(0)
    learner = Implementation(boundary)
    refuses(lambda: learner.width(7), naming=(7,))
    said = wrong(refuses, lambda: learner.width(0)).sentence
    boundary.connection.close()
    assert "It raised Loud: width 0." in said


def boundary_with(call):
    boundary = Boundary(InProcessHost([ChapterSource("toy", "", "toy.py")], "toy", 1.0, 10.0))
    boundary.connection.close()
    boundary.calls.append(call)
    return boundary


def test_a_failure_puts_the_promise_the_call_and_the_relation_into_words():
    comparing.sizes(B=3, T=5)
    problem = wrong(close, X * 2, X, "the output")
    words = explain_failure(problem, "The output is right.", boundary_with(Call("f", (X,), {"dim": -1}, X * 2)), comparing.current)
    assert words.promise == "The output is right."
    assert words.sizes == "B=3 T=5"
    assert words.called[0] == "f(tensor 3x5, dim=-1)"
    assert words.message == "The output came out wrong."
    assert "2" in words.explanation and "times" in words.explanation
    assert words.difference == ""  # fifteen values are shown whole, and their relation is described


@pytest.mark.parametrize(("call", "seen"), [(Call("f", (X[0],), {"k": 9}, X[0]), "T=5 k=9 d_head=2"), (Call("Net(2).forward", (X[0],), {}, X[0]), "B=3 T=5 k=9 d_head=2")])
def test_of_the_sizes_those_of_axes_that_a_functions_call_does_not_have_are_left_out(call, seen):
    """A test may call with several shapes. What an object was made with is not seen at its call."""
    comparing.sizes(B=3, T=5, k=9, d_head=2)
    problem = wrong(close, X[0] * 2, X[0], "the output")
    assert explain_failure(problem, "p", boundary_with(call), comparing.current).sizes == seen


def test_an_error_in_the_test_is_described_as_a_property_of_the_answer():
    words = explain_failure(AttributeError("'NoneType' object has no attribute 'sum'"), "p", boundary_with(Call("f", (1,), {}, None)), comparing.current)
    assert words.message.startswith("f returned None; the test cannot continue with this value")


@pytest.mark.parametrize(("text", "kind"), [("def states():\n    yield 1\n", "generator"), ("class Stream:\n    pass\n\n\nstates = Stream\n", "Stream")])
def test_a_returned_object_is_described_by_its_type(text, kind):
    """It is not described by the call that made it, which the learner knows."""
    boundary = Boundary(InProcessHost([ChapterSource("toy", text, "toy.py")], "toy", 1.0, 10.0))
    boundary.begin(0)
    got = Implementation(boundary).states()
    boundary.connection.close()
    assert wrong(close, got, X).sentence == f"The result should be a tensor; it is an object ({kind})"
    assert wrong(shaped, got, (3, 5)).sentence == f"The result should be a tensor of shape (3, 5); it is an object ({kind})"
