"""What goes wrong in Python itself is said in plain words: a missing `return`, a misspelt name, a missing `super().__init__()`, an endless recursion."""

import pytest
import torch
from boundaries import forks
from grader.course.chapter_source import ChapterSource
from grader.execution.in_process import InProcessHost
from grader.execution.proxy import Boundary, Implementation, gradients, parameters
from grader.execution.worker import Worker, WorkerPool
from grader.verdict import comparing
from grader.verdict.comparing import close, holds, refuses, same, shaped
from grader.verdict.explanation import explain_failure

CHAPTER = '''
import torch
from torch import nn

def nothing(*args): torch.tensor(1)

def helper(x, dimension): return x

def near_name(largest): return larges
def near_torch(x): return torch.expp(x)
def near_tensor(x): return x.transposed(0, 1)
def near_option(x): return helper(x, dimensions=1)
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
'''
X = torch.ones(2, 2)
NONE = "nothing returned None; is a `return` missing?"


@pytest.fixture(scope="module", params=["local", pytest.param("fork", marks=forks)])
def boundary(request):
    pool, sources = WorkerPool(), [ChapterSource("ch03_toy", CHAPTER, "/somewhere/ch03_toy.py")]
    boundary = Boundary(InProcessHost(sources, "ch03_toy", 20.0, 20.0) if request.param == "local" else Worker(pool, sources, "ch03_toy", 20.0, 20.0))
    yield boundary
    boundary.connection.close()
    pool.close()


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


@pytest.mark.parametrize("way", WAYS)
def test_a_missing_return_is_said_in_the_same_words_everywhere(boundary, way):
    assert message_of(boundary, WAYS[way]) == NONE


def test_a_call_that_needs_no_result_is_not_blamed(boundary):
    def step(toy):
        net = toy.Net()
        net.step()
        holds(net.steps == 2, "the step counts wrongly")

    assert message_of(boundary, step) == "The step counts wrongly."
    assert "returned None" in message_of(boundary, lambda toy: refuses(lambda: toy.nothing(X))) and NONE not in message_of(
        boundary, lambda toy: refuses(lambda: toy.nothing(X))
    )


@pytest.mark.parametrize(
    "call, near",
    [
        (lambda toy: toy.near_name(X), "`largest`"),
        (lambda toy: toy.near_torch(X), "`exp`"),
        (lambda toy: toy.near_tensor(X), "`transpose`"),
        (lambda toy: toy.near_option(X), "`dimension`"),
        (lambda toy: toy.near_import(X), "`softmax`"),
        (lambda toy: toy.Net()(X), "`weight`"),
    ],
)
def test_a_misspelt_name_gets_the_nearest(boundary, call, near):
    assert message_of(boundary, call).endswith(f"Did you mean {near}?")


def test_a_name_that_is_near_to_nothing_gets_no_suggestion(boundary):
    assert message_of(boundary, lambda toy: toy.far_name(X)) == "far_name raised NameError: name 'qqqqzzzz' is not defined."


def test_a_missing_super_init_is_said_as_that(boundary):
    for call in (lambda toy: toy.NoSuper(), lambda toy: toy.PlainNoSuper()(X), lambda toy: parameters(toy.PlainNoSuper())):
        assert "does not call `super().__init__()`; call it first in `__init__`" in message_of(boundary, call)


def test_an_endless_recursion_says_which_function_calls_itself_and_where(boundary):
    failure = failure_of(boundary, lambda toy: toy.once(X))
    assert failure.message.endswith("`once` calls itself without end.") and failure.where.endswith("return once(y)  # once")
    assert message_of(boundary, lambda toy: toy.first(X)).endswith("`first` and `second` call each other without end.")
