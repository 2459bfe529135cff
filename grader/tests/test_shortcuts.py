"""The watch on what is forbidden sees operators and functions in whatever way they are called, and leaves them as they were."""

import inspect
import threading

import pytest
import torch
import torch._refs.nn.functional
from grader.door.operators import noticing
from grader.door.shortcuts import watching
from grader.syllabus import load_syllabus

FORBIDS = {name for exercise in load_syllabus().exercises for name in exercise.forbids}
X = torch.linspace(-2, 2, 12).reshape(3, 4)


def seen(call, *names):
    found = []
    with noticing(frozenset(names), found.append):
        result = call()
    return result, found


@pytest.mark.parametrize(
    "call",
    {
        "a function": lambda: torch.softmax(X, -1),
        "a method": lambda: X.softmax(-1),
        "a layer": lambda: torch.nn.Softmax(-1)(X),
        "an operator": lambda: torch.ops.aten._softmax.default(X, -1, False),
        "an operator of its own interpreter": lambda: torch._C._jit_get_operation("aten::softmax")[0](X, -1, None),
        "where torch tells nobody": lambda: _untold(torch.softmax),
        "without gradient": lambda: _inferred(torch.softmax),
        "vectorized": lambda: torch.vmap(lambda row: torch.softmax(row, -1))(X),
        "in a thread": lambda: _in_a_thread(torch.softmax),
    }.items(),
    ids=lambda item: item[0],
)
def test_it_is_seen_and_does_what_it_does(call):
    result, found = seen(call[1], "softmax")
    assert found and set(found) == {"softmax"}
    torch.testing.assert_close(result, torch.softmax(X, -1))


def _untold(function):
    with torch._C.DisableTorchFunction():
        return function(X, -1)


def _inferred(function):
    with torch.inference_mode():
        return function(X, -1)


def _in_a_thread(function):
    found = []
    thread = threading.Thread(target=lambda: found.append(function(X, -1)))
    thread.start()
    thread.join()
    return found[0]


def test_gradient_flows_through_it_as_before():
    def gradient():
        x = X.clone().requires_grad_()
        (torch.softmax(x, -1) * X).sum().backward()
        return x.grad

    torch.testing.assert_close(seen(gradient, "softmax")[0], gradient())


def test_what_works_in_place_works_in_place():
    def changed():
        x = X.clone()
        returned = torch.ops.aten.gelu_(x)
        assert returned.data_ptr() == x.data_ptr()
        return x

    result, found = seen(changed, "gelu")
    assert found == ["gelu"]
    torch.testing.assert_close(result, torch.nn.functional.gelu(X))


def test_what_is_not_forbidden_is_not_told():
    seen(lambda: torch.softmax(X, -1), "softmax")  # it has a kernel of ours from now on
    assert seen(lambda: (torch.softmax(X, -1), X.exp(), X @ X.T), "gelu")[1] == []


def test_nothing_is_told_afterwards():
    found = []
    with noticing(frozenset({"softmax"}), found.append):
        pass
    torch.softmax(X, -1)
    assert found == [] and threading.getprofile() is None


def test_one_watch_inside_another():
    outer, inner = [], []
    with noticing(frozenset({"softmax"}), outer.append):
        with noticing(frozenset({"gelu"}), inner.append):
            torch.softmax(X, -1)
        torch.softmax(X, -1)
    assert (outer, inner) == (["softmax", "softmax"], [])


@pytest.mark.parametrize("name", sorted(name for name in FORBIDS if hasattr(torch.ops.aten, name)))
def test_each_operator_that_the_syllabus_forbids_can_be_watched(name):
    assert seen(lambda: None, name)[1] == []
    overloads = [f"aten::{name}" if overload == "default" else f"aten::{name}.{overload}" for overload in getattr(torch.ops.aten, name).overloads()]
    assert all(torch._C._dispatch_has_kernel_for_dispatch_key(overload, "TESTING_ONLY_GenericMode") for overload in overloads)


# ---- functions that torch has in Python


def test_a_function_in_python_is_seen_by_whoever_holds_it_already():
    held, source = torch.nn.utils.clip_grad_norm_, inspect.getsource(torch.nn.utils.clip_grad_norm_)
    found, p = [], torch.nn.Parameter(torch.ones(4))
    p.grad = torch.full((4,), 2.0)
    with watching(("clip_grad_norm_",), {__file__}, (), found.append):
        total = held([p], max_norm=1.0)
    assert found == ["clip_grad_norm_"] and float(total) == pytest.approx(4.0) and float(p.grad.norm()) == pytest.approx(1.0)
    held([p], 1.0)
    assert found == ["clip_grad_norm_"] and inspect.getsource(held) == source


@pytest.mark.parametrize("call", [torch.nn.functional.dropout, torch._refs.nn.functional.dropout])
def test_arguments_and_defaults_reach_it(call):
    found = []
    with watching(("dropout",), {__file__}, (), found.append):
        assert torch.equal(call(X, training=False), X) and not call(X, 1.0).any() and 0 < int((call(X.repeat(100, 1, 1)) == 0).sum()) < 1200
    assert set(found) == {"dropout"}


def test_what_torch_calls_for_itself_is_nobodys_shortcut():
    found = []
    with watching(("softmax",), {"/somebody/ch03.py"}, (), found.append):
        torch.nn.functional.softmax(X, -1)
    assert found == []


def test_one_watch_may_stand_in_another():
    outer, inner, original = [], [], torch.nn.functional.dropout.__code__
    with watching(("dropout",), {__file__}, (), outer.append):
        with watching(("dropout",), {__file__}, (), inner.append):
            torch.nn.functional.dropout(X)
        before = len(outer)
        torch.nn.functional.dropout(X)
    assert len(outer) > before > 0 < len(inner) and torch.nn.functional.dropout.__code__ is original
