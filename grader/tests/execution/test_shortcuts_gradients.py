"""An exercise about gradients forbids autograd: each way to it is reported, and what only looks like it is not."""

import pytest
import torch
from grader.course.syllabus import load_syllabus
from grader.course.torch_operators import reportable
from grader.execution.forbidden.shortcuts import watching

EXERCISE = load_syllabus().exercise("gelu_backward")
X = torch.linspace(-2, 2, 6)


def leaf():
    return X.clone().requires_grad_()


def by_method():
    x = leaf()
    (x**2).sum().backward()
    return x.grad


def by_double_backward():
    x = leaf()
    return torch.autograd.grad(torch.autograd.grad((x**3).sum(), x, create_graph=True)[0].sum(), x)[0] * 0 + 2 * X


def by_a_hook():
    x, found = leaf(), []
    y = x * 1.0
    y.register_hook(found.append)
    torch.autograd.backward((y**2).sum())
    return found[0]


WAYS = {
    "autograd.grad": lambda: [torch.autograd.grad((x**2).sum(), x)[0] for x in [leaf()]][0],
    "Tensor.backward": by_method,
    "a hook": by_a_hook,
    "twice": by_double_backward,
    "func.grad": lambda: torch.func.grad(lambda x: (x**2).sum())(X),
    "func.vjp": lambda: torch.func.vjp(torch.square, X)[1](torch.ones(6))[0],
    "func.jvp": lambda: torch.func.jvp(torch.square, (X,), (torch.ones(6),))[1],
    "func.jacrev": lambda: torch.func.jacrev(torch.square)(X).diagonal(),
    "func.jacfwd": lambda: torch.func.jacfwd(torch.square)(X).diagonal(),
    "func.hessian": lambda: torch.func.hessian(lambda x: (x**3 / 3).sum())(X).diagonal(),
    "func.linearize": lambda: torch.func.linearize(torch.square, X)[1](torch.ones(6)),
    "autograd.functional": lambda: torch.autograd.functional.jacobian(torch.square, X).diagonal(),
    "autograd.functional.vjp": lambda: torch.autograd.functional.vjp(torch.square, X, torch.ones(6))[1],
    "torch.gradient": lambda: torch.gradient(X**2, spacing=(X,))[0] * 0 + 2 * X,
}


@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_autograd_is_reported_and_still_works(way):
    found = []
    with watching(EXERCISE.forbids, found.append):
        result = WAYS[way]()
    assert found and set(found) <= reportable(EXERCISE.forbids)
    torch.testing.assert_close(result, 2 * X)


FAIR = {
    "arithmetic": lambda: X * 2,
    "without gradient": lambda: torch.no_grad()(lambda: X + X)(),
    "detached": lambda: X.detach() * 2,
    "in inference mode": lambda: torch.inference_mode()(lambda: X.clone() * 2)(),
    "the function itself": lambda: torch.nn.functional.gelu(X) * 0 + 2 * X,
    "vectorized": lambda: torch.vmap(lambda x: x * 2)(X),
    "accumulated": lambda: torch.zeros(6).index_put((torch.arange(6),), 2 * X, accumulate=True),
}


@pytest.mark.parametrize("way", FAIR)
def test_what_computes_no_gradient_is_not_reported(way):
    found = []
    with watching(EXERCISE.forbids, found.append):
        result = FAIR[way]()
    assert found == []
    torch.testing.assert_close(result, 2 * X)


def test_a_check_against_autograd_at_the_end_of_a_chapter_is_no_shortcut():
    found = []
    with watching(EXERCISE.forbids, found.append, importing=True):
        exec("import torch\nx = torch.ones(3, requires_grad=True)\n(x * x).sum().backward()\nassert x.grad.tolist() == [2, 2, 2]\n", {})
    assert found == []
