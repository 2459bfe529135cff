"""Autograd is forbidden in an exercise about gradients: each way to it is reported, and what computes no gradient is not."""

import pytest
import torch
from grader.course.syllabus import load_syllabus
from shortcuts_seen import seen

BACKWARD = load_syllabus().exercise("gelu_backward").forbids
V = torch.linspace(-2, 2, 6)


def leaf():
    return V.clone().requires_grad_()


def by_method():
    x = leaf()
    (x**2).sum().backward()
    return x.grad


def by_double_backward():
    x = leaf()
    return torch.autograd.grad(torch.autograd.grad((x**3).sum(), x, create_graph=True)[0].sum(), x)[0] * 0 + 2 * V


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
    "func.grad": lambda: torch.func.grad(lambda x: (x**2).sum())(V),
    "func.vjp": lambda: torch.func.vjp(torch.square, V)[1](torch.ones(6))[0],
    "func.jvp": lambda: torch.func.jvp(torch.square, (V,), (torch.ones(6),))[1],
    "func.jacrev": lambda: torch.func.jacrev(torch.square)(V).diagonal(),
    "func.jacfwd": lambda: torch.func.jacfwd(torch.square)(V).diagonal(),
    "func.hessian": lambda: torch.func.hessian(lambda x: (x**3 / 3).sum())(V).diagonal(),
    "func.linearize": lambda: torch.func.linearize(torch.square, V)[1](torch.ones(6)),
    "autograd.functional": lambda: torch.autograd.functional.jacobian(torch.square, V).diagonal(),
    "autograd.functional.vjp": lambda: torch.autograd.functional.vjp(torch.square, V, torch.ones(6))[1],
    "torch.gradient": lambda: torch.gradient(V**2, spacing=(V,))[0] * 0 + 2 * V,
}


@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_autograd_is_reported_and_still_works(way):
    result, found = seen(WAYS[way], *BACKWARD)
    assert found
    torch.testing.assert_close(result, 2 * V)


def test_what_computes_no_gradient_is_not_reported():
    fair = {
        "arithmetic": lambda: V * 2,
        "without gradient": lambda: torch.no_grad()(lambda: V + V)(),
        "detached": lambda: V.detach() * 2,
        "in inference mode": lambda: torch.inference_mode()(lambda: V.clone() * 2)(),
        "the function itself": lambda: torch.nn.functional.gelu(V) * 0 + 2 * V,
        "vectorized": lambda: torch.vmap(lambda x: x * 2)(V),
        "accumulated": lambda: torch.zeros(6).index_put((torch.arange(6),), 2 * V, accumulate=True),
    }
    for way, call in fair.items():
        result, found = seen(call, *BACKWARD)
        assert found == [] and torch.allclose(result, 2 * V), way
    check = "import torch\nx = torch.ones(3, requires_grad=True)\n(x * x).sum().backward()\nassert x.grad.tolist() == [2, 2, 2]\n"
    assert seen(lambda: exec(check, {}), *BACKWARD, importing=True)[1] == [], "at the end of a chapter it is no shortcut"
