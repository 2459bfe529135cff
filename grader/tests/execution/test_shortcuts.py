"""The recorder of forbidden operators and functions notices every way of calling them, and lets them work as before."""

import _thread
import contextlib
import importlib
import inspect
import sys
import threading
import time

import pytest
import torch
import torch._refs.nn.functional
from grader.course.torch_operators import ANOTHER_PACKAGE, OTHER_RUNTIME
from grader.execution.forbidden.shortcuts import watching
from shortcuts_seen import seen
from torch.utils._python_dispatch import TorchDispatchMode

X = torch.linspace(-2, 2, 12).reshape(3, 4)


@pytest.mark.parametrize(
    "call",
    {
        "a function": lambda: torch.softmax(X, -1),
        "a method": lambda: X.softmax(-1),
        "a layer": lambda: torch.nn.Softmax(-1)(X),
        "a private operator": lambda: torch._masked_softmax(X, torch.zeros(X.shape, dtype=torch.bool), 1, 0),
        "an operator": lambda: torch.ops.aten._softmax.default(X, -1, False),
        "an operator of its own interpreter": lambda: torch._C._jit_get_operation("aten::softmax")[0](X, -1, None),
        "an operator for one key": lambda: torch.ops.aten._softmax.default.redispatch(torch._C.DispatchKeySet(torch._C.DispatchKey.CPU), X, -1, False),
        "an operator of one backend": lambda: torch._C._get_operation_overload("aten::_softmax", "")[1](torch._C.DispatchKey.CPU, X, -1, False),
        "the gradient of another": lambda: _gradient(lambda x: torch.logsumexp(x, -1)),
        "a distribution": lambda: torch.distributions.Categorical(logits=X).probs,
        "without torch functions": lambda: _without_torch_function(torch.softmax),
        "without gradient": lambda: _inferred(torch.softmax),
        "vectorized": lambda: torch.vmap(lambda row: torch.softmax(row, -1))(X),
        "in a mode of the dispatcher": lambda: _in_a_mode(torch.softmax),
        "in a thread": lambda: _in_a_thread(torch.softmax),
        "in a raw thread": lambda: _in_a_raw_thread(torch.softmax),
        "in a thread of torch": lambda: torch.jit.wait(torch.jit.fork(torch.softmax, X, -1)),
        "a function in Python": lambda: torch._refs.nn.functional.softmax(X, -1),
    }.items(),
    ids=lambda item: item[0],
)
def test_each_way_of_calling_is_noticed_and_still_works(call):
    result, found = seen(call[1], "softmax")
    assert found and set(found) <= {"softmax", "_softmax", "logsumexp", "_masked_softmax"}
    torch.testing.assert_close(result, torch.softmax(X, -1))


def _gradient(function):
    x = X.clone().requires_grad_()
    return torch.autograd.grad(function(x).sum(), x)[0]


def _without_torch_function(function):
    with torch._C.DisableTorchFunction():
        return function(X, -1)


def _inferred(function):
    with torch.inference_mode():
        return function(X, -1)


def _in_a_mode(function):
    class Swap(TorchDispatchMode):
        def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
            return function(*args, -1)

    with Swap():
        return torch.cos(X)


def _in_a_thread(function):
    found = []
    thread = threading.Thread(target=lambda: found.append(function(X, -1)))
    thread.start()
    thread.join()
    return found[0]


def _in_a_raw_thread(function):
    found = []
    _thread.start_new_thread(lambda: found.append(function(X, -1)), ())
    while not found:
        time.sleep(0.001)
    return found[0]


def test_composite_operators_are_noticed_in_every_thread():
    for run in (_in_a_thread, _in_a_raw_thread):
        assert "dropout" in seen(lambda run=run: run(lambda x, _: torch.dropout(x, 0.5, True)), "dropout")[1]


def test_in_place_operators_still_work_in_place():
    def changed():
        x = X.clone()
        returned = torch.ops.aten.gelu_(x)
        assert returned.data_ptr() == x.data_ptr()
        return x

    result, found = seen(changed, "gelu")
    assert found[0] == "gelu_"
    torch.testing.assert_close(result, torch.nn.functional.gelu(X))


def test_every_watched_operator_keeps_its_derivatives():
    x = X.double().requires_grad_()
    calls = {
        "softmax": lambda x: torch.softmax(x, -1), "layer_norm": lambda x: torch.nn.functional.layer_norm(x, (4,)), "gelu": torch.nn.functional.gelu,
        "cross_entropy": lambda x: torch.nn.functional.cross_entropy(x, torch.tensor([1, 2, 0])),
        "scaled_dot_product_attention": lambda x: torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None]),
    }  # fmt: skip
    for name, call in calls.items():
        plain = call(x), torch.autograd.grad(call(x).sum(), x)[0]
        (result, slope), found = seen(lambda call=call: (call(x), torch.autograd.grad(call(x).sum(), x)[0]), name)
        assert found and torch.equal(result, plain[0]) and torch.equal(slope, plain[1]), name


def test_what_is_not_forbidden_is_not_reported_and_nothing_afterwards():
    found = seen(lambda: torch.softmax(X, -1), "softmax")[1]  # this registers a kernel
    count = len(found)
    torch.softmax(X, -1)
    assert len(found) == count > 0
    assert seen(lambda: (torch.softmax(X, -1), X.exp(), X @ X.T), "gelu")[1] == []


def test_one_watch_inside_another():
    outer, inner = [], []
    with watching(("softmax",), outer.append):
        with watching(("gelu",), inner.append):
            torch.softmax(X, -1)
        torch.softmax(X, -1)
    assert outer[0] == "softmax" and inner == []


def test_switching_the_watch_off_is_reported():
    key = "TESTING_ONLY_GenericMode"

    def off():
        torch._C._dispatch_tls_set_dispatch_key_included(key, False)

    def left_out():
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C._parse_dispatch_key(key))):
            pass

    assert seen(off, "softmax")[1] == seen(left_out, "softmax")[1] == seen(off, "softmax", importing=True)[1] == [OTHER_RUNTIME]


# ---- functions that torch has in Python, and classes


def test_a_python_function_is_noticed_through_earlier_references():
    earlier, source = torch.nn.utils.clip_grad_norm_, inspect.getsource(torch.nn.utils.clip_grad_norm_)
    found, p = [], torch.nn.Parameter(torch.ones(4))
    p.grad = torch.full((4,), 2.0)
    with watching(("clip_grad_norm_",), found.append):
        total = earlier([p], max_norm=1.0)
        assert inspect.getsource(earlier) == source
    assert found == ["torch.nn.utils.clip_grad"] and float(total) == pytest.approx(4.0) and float(p.grad.norm()) == pytest.approx(1.0)
    earlier([p], 1.0)
    assert found == ["torch.nn.utils.clip_grad"] and inspect.getsource(earlier) == source


@pytest.mark.parametrize("call", [torch.nn.functional.dropout, torch._refs.nn.functional.dropout])
def test_arguments_and_defaults_reach_it(call):
    def calls():
        assert torch.equal(call(X, training=False), X) and not call(X, 1.0).any() and 0 < int((call(X.repeat(100, 1, 1)) == 0).sum()) < 1200

    assert "dropout" in seen(calls, "dropout")[1]


def test_every_function_of_a_module_that_contains_the_answer_counts():
    for module, name in (("torch.optim.adam", "_single_tensor_adam"), ("torch.optim.adamw", "adamw")):

        def step(module=module, name=name):
            with contextlib.suppress(TypeError):  # for its arguments
                getattr(sys.modules[module], name)()

        assert seen(step, "AdamW")[1] == [module]
    assert seen(lambda: torch._refs.logsumexp(self=X, dim=-1), "logsumexp")[1] == ["logsumexp"], "arguments may have any name"


def test_a_module_that_is_imported_late_counts_too(monkeypatch):
    name = "torch.optim.adam"

    def late():
        monkeypatch.delitem(sys.modules, name)
        with contextlib.suppress(TypeError):
            importlib.import_module(name)._single_tensor_adam()

    assert seen(late, "AdamW")[1] == [name]


def test_creating_a_forbidden_class_counts_under_any_name():
    kind = type("Table", (torch.nn.Embedding,), {})
    assert seen(lambda: kind(3, 4), "Embedding")[1] == ["Embedding"]
    assert seen(lambda: torch.nn.functional.embedding(torch.tensor([1]), X), "Embedding")[1] == [], "the function is another name"


# ---- while a chapter is imported


def test_at_import_an_operator_is_not_a_shortcut_but_a_graph_of_its_parts_is():
    def compared():
        return torch.softmax(X, -1), torch.nn.functional.softmax(X, -1)

    assert seen(compared, "softmax", importing=True)[1] == []
    assert "softmax" in seen(lambda: torch._refs.softmax(X, -1), "softmax", importing=True)[1]


def test_another_package_is_reported_if_the_exercise_forbids_functions(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    for name in ("headway_other_package", "headway_another_one", "headway_one_at_the_top"):
        (folder / f"{name}.py").write_text("")
    monkeypatch.syspath_prepend(folder)
    importlib.invalidate_caches()
    allowed = ("scaled_dot_product_attention",)
    assert seen(lambda: importlib.import_module("headway_other_package"), *allowed)[1] == []
    assert seen(lambda: importlib.import_module("headway_another_one"), "softmax", importing=True)[1] == [ANOTHER_PACKAGE]
    at_the_top = seen(lambda: importlib.import_module("headway_one_at_the_top"), *allowed, importing=True)[1]
    assert at_the_top == [ANOTHER_PACKAGE], "a chapter is imported once, and a later exercise of it may forbid packages"
    assert seen(lambda: importlib.import_module("wave"), "softmax")[1] == [], "the standard library is allowed"
