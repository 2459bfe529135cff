"""What goes wrong in Python itself is said in plain words: a missing `return`, a misspelt name, a missing `super().__init__()`, an endless recursion."""

import pytest
import torch
from boundaries import forks
from grader.course.chapter_source import ChapterSource
from grader.execution.descriptions import note_of
from grader.execution.errors import Todo
from grader.execution.in_process import InProcessHost
from grader.execution.proxy import Boundary, Implementation, gradients, parameters
from grader.execution.worker import Worker
from grader.verdict import comparing
from grader.verdict.comparing import close, holds, refuses, same, shaped
from grader.verdict.error_sentences import describe_known_error
from grader.verdict.explanation import explain_failure

CHAPTER = '''
import torch
from torch import nn

def nothing(*args): torch.tensor(1)


def near_name(largest): return larges
def near_torch(x): return torch.expp(x)
def near_tensor(x): return x.transposed(0, 1)
def near_import(x):
    from torch.nn.functional import sofmax
def far_name(x): return qqqqzzzz

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
    def forward(self, x): return x * self.wieght
    def step(self): self.steps = 1

class NoSuper(nn.Module):
    def __init__(self): self.weight = nn.Parameter(torch.ones(2))

class PlainNoSuper(nn.Module):
    def __init__(self): self.d = 3
    def forward(self, x): return x

def once(x):
    y = x + 1
    return once(y)  # once
def first(x): return second(x)
def second(x): return first(x)

def takes_one(x): return x.sum()
def passes_two(x): return takes_one(x, 0)
def passes_a_word(x):
    return takes_one("x")  # passes_a_word
def passes_none(x): return takes_one()
def passes_named(x): return takes_one(y=x)
def two_dtypes(x): return x.double() @ x.to(torch.int8)
def torch_cannot(x): return (x > 0) @ (x > 0)
def stub(x): raise NotImplementedError

class Number:
    def __init__(self, value): self.value, self.grad = value, None
    def __mul__(self, other): return Number(self.value * other)
    def __pow__(self, other): raise ValueError("no powers")
    def backward(self): self.grad = 1.0
'''
X = torch.ones(2, 2)
NONE = "nothing returned None. Is a `return` missing? list.sort, append, set.add and dict.update also return None."


@pytest.fixture(scope="module", params=["local", pytest.param("fork", marks=forks)])
def boundary(request, worker_pool):
    sources = [ChapterSource("ch03_toy", CHAPTER, "/somewhere/ch03_toy.py")]
    boundary = Boundary(InProcessHost(sources, "ch03_toy", 20.0, 20.0) if request.param == "local" else Worker(worker_pool, sources, "ch03_toy", 20.0, 20.0))
    yield boundary
    boundary.connection.close()


def message_of(boundary, test):
    """What is said when this test fails."""
    return failure_of(boundary, test).message


def failure_of(boundary, test):
    boundary.begin(1)
    comparing.new_test()
    try:
        test(Implementation(boundary))
    except Exception as problem:
        return explain_failure(problem, "a promise", boundary, comparing.current)
    raise AssertionError("the test passes")


def read_shape(f):
    return f(torch.ones(1)).shape


WAYS = {
    "close": lambda toy: close(toy.nothing(X), X),
    "a number": lambda toy: close(toy.nothing(X), 1.5),
    "a container": lambda toy: close(toy.nothing(X), [X, X]),
    "same": lambda toy: same(toy.nothing(X), [1, 2]),
    "shaped": lambda toy: shaped(toy.nothing(X), (2, 2)),
    "holds": lambda toy: holds(isinstance(toy.nothing(X), tuple), "nothing should return two tensors"),
    "an attribute": lambda toy: toy.nothing(X).shape,
    "its length": lambda toy: len(toy.nothing(X)),
    "iteration": lambda toy: list(toy.nothing(X)),
    "arithmetic": lambda toy: toy.nothing(X) + 1,
    "a module's parameters": lambda toy: parameters(toy.nothing(X)),
    "gradients": lambda toy: close(gradients(toy.nothing, X).output, X),
    "a helper of the test": lambda toy: toy.bring(read_shape)(toy.nothing),
}


def test_a_missing_return_is_said_in_the_same_words_everywhere(boundary):
    for way, test in WAYS.items():
        assert message_of(boundary, test) == NONE, way


@pytest.mark.parametrize(
    ("code", "predicate"),
    [
        ("torch.ones(1)[5]", "uses index 5 in dimension 0, which has only 1 place ("),
        ("torch.ones(3)[5]", "uses index 5 in dimension 0, which has only 3 places ("),
        ("one, two = [1]", "assigns 1 value to 2 names ("),
        ("[one] = 1, 2", "assigns more than 1 value to 1 name ("),
        ("torch.ones(1).reshape(2, 3)", "gives 1 number the shape [2, 3], which "),
    ],
)
def test_one_thing_is_said_in_the_singular(code, predicate):
    assert sentence_of(code).startswith(predicate)


def sentence_of(code):
    """What is said about the error that this code raises."""
    with pytest.raises(Exception) as raised:  # noqa: PT011
        exec(code, {"torch": torch, "x": torch.ones(2, 3), "double": torch.ones(2, 3).double(), "ids": torch.tensor([1])})
    return describe_known_error(raised.type.__name__, str(raised.value))


TWO_DTYPES = "combines tensors of two dtypes, float32 and float64; convert one of them"


@pytest.mark.parametrize(
    ("code", "predicate"),
    [
        ("x @ double.T", TWO_DTYPES),
        ("torch.bmm(x[None], double.T[None])", TWO_DTYPES),
        ("torch.einsum('ij,kj->ik', x, double)", TWO_DTYPES),
        ("x[ids] = double[:1]", TWO_DTYPES),
        ("torch.einsum('bthd,hd->bt', x, x)", "calls einsum with 4 letters for a tensor of 2 dimensions (number 1 of"),
        ("torch.einsum('ij,jk->ik', x, x)", "calls einsum with tensors that do not fit: the dimension j is 3 in one of them and 2 in another"),
        ("ids += 0.5", "changes a tensor of int64 in place by a number of float32"),
        ("torch.sqrt(4)", "calls torch's `sqrt` with an int, and it takes tensors only"),
        ("torch.zeros((3, 3), torch.int64)", "gives torch's `zeros` something after the sizes; write its name too"),
        ("torch.softmax(ids, 0)", "computes with a tensor of int64 what torch cannot do with this dtype"),
        ("ids.mean()", "computes with a tensor of int64 what torch cannot do with this dtype"),
        ("if x > 0: pass", "uses a tensor of several values as one truth value"),
        ("x.T.view(6)", "calls `view` on a tensor whose numbers are not in this order in memory"),
        ("x.sum().backward()", "computes gradients of a value that does not depend on any parameter"),
        ("x.masked_fill(None, 0.0)", "uses None as a value. It may be an argument that was left out"),
        ("torch.where(x > 0, x, None)", "uses None as a value. It may be an argument that was left out"),
        ("x * None", "uses None as a value. It may be an argument that was left out"),
    ],
)
def test_what_torch_says_of_common_slips_is_said_in_plain_words(code, predicate):
    assert sentence_of(code).startswith(predicate)


def rows_of(boundary, test, promise, about_error=False):
    boundary.begin(1)
    comparing.new_test()
    with pytest.raises(Exception) as raised:  # noqa: PT011
        test(Implementation(boundary))
    return {row.label: row.text for row in explain_failure(raised.value, promise, boundary, comparing.current, about_error=about_error).rows()}


def wrong_value(toy):
    close(toy.takes_one(X), torch.ones(()))


def wrong_value_after_the_error(toy):
    refuses(lambda: toy.passes_two(X), errors=(TypeError,))
    wrong_value(toy)


def test_a_promise_that_the_test_did_not_reach_is_shown_as_untested(boundary):
    """After another error than the law is about, and where a test of an error finds a wrong value."""
    for promise, reached, test in (
        ("Each row sums to 1.", False, lambda toy: toy.passes_two(X)),
        ("Each row sums to 1.", True, wrong_value),
        ("A text without words raises a ValueError.", False, wrong_value),
        ("A text without words raises a ValueError.", True, lambda toy: refuses(lambda: toy.takes_one(X))),
        ("A text without words raises a ValueError, and the list is as before.", True, wrong_value_after_the_error),
    ):
        rows = rows_of(boundary, test, promise, about_error="raises" in promise)
        assert (rows.get("promised"), rows.get("untested")) == ((promise, None) if reached else (None, promise))


def test_an_error_of_the_test_is_not_blamed_on_the_code(boundary):
    assert message_of(boundary, lambda toy: close(toy.takes_one(X), expected_value)).startswith("The test itself has an error, which is not about your code (NameError")  # noqa: F821


def test_a_call_that_needs_no_result_is_not_blamed(boundary):
    def step(toy):
        net = toy.Net()
        net.step()
        holds(net.steps == 2, "the step counts wrongly")

    assert message_of(boundary, step) == "The step counts wrongly."
    assert "returned None" in message_of(boundary, lambda toy: refuses(lambda: toy.nothing(X))) and NONE not in message_of(
        boundary, lambda toy: refuses(lambda: toy.nothing(X))
    )


def test_a_misspelt_name_gets_the_nearest(boundary):
    for call, near in (
        (lambda toy: toy.near_name(X), "`largest`"), (lambda toy: toy.near_torch(X), "`exp`"), (lambda toy: toy.near_tensor(X), "`transpose`"),
        (lambda toy: toy.near_import(X), "`softmax`"), (lambda toy: toy.Net()(X), "`weight`"),
    ):  # fmt: skip
        assert message_of(boundary, call).endswith(f"Did you mean {near}?")
    assert message_of(boundary, lambda toy: toy.far_name(X)) == "far_name raised NameError: name 'qqqqzzzz' is not defined."


def test_a_missing_super_init_is_said_as_that(boundary):
    for call in (lambda toy: toy.NoSuper(), lambda toy: toy.PlainNoSuper()(X), lambda toy: parameters(toy.PlainNoSuper())):
        assert "does not call `super().__init__()`; call it first in `__init__`" in message_of(boundary, call)


def test_an_endless_recursion_says_which_function_calls_itself_and_where(boundary):
    failure = failure_of(boundary, lambda toy: toy.once(X))
    too_deep = "without end, or too often: Python allows about 1,000 calls inside each other."
    assert failure.message.endswith(f"`once` calls itself {too_deep}") and failure.where.endswith("return once(y)  # once")
    assert message_of(boundary, lambda toy: toy.first(X)).endswith(f"`first` and `second` call each other {too_deep}")


def test_a_wrong_number_of_arguments_says_which_function_takes_how_many(boundary):
    assert "takes_one takes 1 argument and gets 2; compare the line of its `def` with the stub" in message_of(boundary, lambda toy: toy.takes_one(X, 0))
    assert "passes_two calls `takes_one`, which takes 1 argument, with 2;" in message_of(boundary, lambda toy: toy.passes_two(X))
    assert message_of(boundary, lambda toy: toy.takes_one()).startswith("takes_one is called without `x`, which its `def` demands (TypeError: ")
    assert message_of(boundary, lambda toy: toy.passes_none(X)).startswith("passes_none calls `takes_one` without `x`, which its `def` demands (TypeError: ")
    assert message_of(boundary, lambda toy: toy.takes_one(y=X)).startswith("takes_one has no parameter `y`, with which it is called (TypeError: ")
    assert message_of(boundary, lambda toy: toy.passes_named(X)).startswith("passes_named calls `takes_one` with `y`, and it has no parameter of this name (TypeError: ")


def test_an_error_in_another_definition_names_the_line_that_called_it(boundary):
    failure = failure_of(boundary, lambda toy: toy.passes_a_word(X))
    assert failure.where.endswith("def takes_one(x): return x.sum()")
    assert failure.message.endswith('`takes_one` was called in ch03_toy.py, line 38: `return takes_one("x") # passes_a_word`.')


def test_two_dtypes_are_named_as_in_code(boundary):
    assert "two_dtypes combines tensors of two dtypes, float64 and int8; convert one of them" in message_of(boundary, lambda toy: toy.two_dtypes(X))


def test_an_operation_that_torch_does_not_have_is_an_error_and_not_a_stub(boundary):
    failure = failure_of(boundary, lambda toy: toy.torch_cannot(X))
    assert "NotImplementedError" in failure.message and "not implemented for 'Bool'" in failure.message and failure.where.startswith("ch03_toy.py")
    with pytest.raises(Todo):
        boundary.begin(1)
        Implementation(boundary).stub(X)


def multiplied(Number, value):
    """An operator of the learner's, not a call, raises the exception."""
    return (2 * Number(value)).value


def to_the_power(Number, value):
    return (Number(value) ** 2).value


def gradient_of(Number, value):
    number = Number(value)
    number.backward()
    return [number.value, None]


def test_an_operator_that_fails_in_a_helper_is_not_blamed_on_the_call_before_it(boundary):
    failure = failure_of(boundary, lambda toy: toy.bring(multiplied)(toy.Number, 3.0))
    assert failure.called == ["multiplied(Number, 3.0)"]
    assert failure.message.startswith("`multiplied`, a function of the test, raised TypeError: unsupported operand type(s) for *: 'int' and 'Number'")
    failure = failure_of(boundary, lambda toy: toy.bring(to_the_power)(toy.Number, 3.0))
    assert failure.called == ["to_the_power(Number, 3.0)"] and failure.where.endswith('raise ValueError("no powers")')


def test_a_method_whose_result_a_helper_does_not_use_needs_no_return(boundary):
    assert message_of(boundary, lambda toy: close(toy.bring(gradient_of)(toy.Number, 3.0), [3.0, 1.0])) == "The result[1] came out wrong."


def test_a_missing_import_says_what_to_write():
    for statement, note in (
        ("import nltk_of_mine", "An exercise needs only Python and torch; delete this import."),
        ("import troch", "Did you mean `torch`?"),
        ("import torch.nothing_there", ""),
        ("sofmax(1)", "`sofmax` is in chapter 3. To use it here, write `from .ch03_attention import sofmax` at the top of the file."),
        ("torch.ones(2)", "Is `import torch` missing at the top of the file?"),
        ("class A(nn.Module): pass", "Is `from torch import nn` missing at the top of the file?"),
    ):
        with pytest.raises((ImportError, NameError)) as caught:
            exec(statement, {})
        assert note_of(caught.value, (), lambda name: "ch03_attention") == note
