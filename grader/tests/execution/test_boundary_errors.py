"""Failures in the host are answers: errors with their place, actions that no call may do, chapters that do not import, calls that do not end."""

from __future__ import annotations

import signal
import threading

import pytest
import torch
from boundaries import FILENAME, QUICK_KINDS, TOY, opened
from grader.course.chapter_source import ChapterSource
from grader.course.syllabus import load_syllabus
from grader.execution.errors import ChapterBroken, HostDied, LearnerError, OutOfTime, RuleBroken, Todo
from grader.execution.in_process import InProcessHost
from grader.execution.proxy import Boundary, Implementation, gradients
from grader.execution.values import changed_argument, pack
from kit_copy import posix


@pytest.fixture(scope="module", params=QUICK_KINDS)
def toy_boundary(request, worker_pool):
    with opened(request.param, worker_pool) as boundary:
        yield boundary


@pytest.fixture
def toy(toy_boundary):
    toy_boundary.begin(7)
    return Implementation(toy_boundary)


# ---- errors


def test_an_error_crosses_with_its_place(toy):
    with pytest.raises(ZeroDivisionError) as caught:
        toy.divide(1, 0)
    problem = caught.value
    assert isinstance(problem, LearnerError) and (problem.type_name, problem.message) == ("ZeroDivisionError", "division by zero")
    line = TOY.split("# the line of the error")[0].count("\n") + 1
    assert (problem.where.file, problem.where.line, problem.where.code) == ("toy.py", line, "return a / b  # the line of the error")


def test_the_learners_line_is_named_and_not_torchs(toy):
    with pytest.raises(RuntimeError, match="shapes") as caught:
        toy.Net()(torch.ones(1, 5))
    assert "torch.tanh(self.first(x))" in caught.value.where.code


def test_errors_of_every_kind(toy):
    for how, kind, message in [
        ("loud", ValueError, "x" * 100), ("mute", LearnerError, "cannot be read"), ("exit", LearnerError, "it ended the program (enough)"),
        ("deep", RecursionError, "maximum recursion depth"), ("name", KeyError, "name"),
    ]:  # fmt: skip
        with pytest.raises(kind) as caught:
            toy.fails(how)
        assert message in str(caught.value) and len(str(caught.value)) <= 600
        assert caught.value.where.file == "toy.py"
    with pytest.raises(Todo):
        toy.fails("todo")


    with pytest.raises(ValueError) as caught:
        toy.fails("escapes")
    assert "red" in caught.value.message and caught.value.message.isprintable(), "no message can command the terminal"


# ---- what no call may do


def test_a_changed_argument_is_reported(toy):
    for value, how in (
        (torch.zeros(3), "in place"), (torch.zeros(3), "resize"), ([1, 2], "list"), ({"a": 1, "b": 2}, "dict"), ({"a": 1, "b": 2}, "order"),
        ({"deep": [torch.ones(2)]}, "nested"), ({1, 2}, "set"),
    ):  # fmt: skip
        with pytest.raises(RuleBroken, match="the call changed its argument number 1; work on a copy"):
            toy.change(value, how)
        assert how != "in place" or value.tolist() == [0, 0, 0], "the caller's value stays as it was"
    with pytest.raises(RuleBroken, match="changed its argument `mask`"):
        toy.change_option(torch.ones(1), mask=torch.tensor([False]))
    for value in (torch.ones(2), torch.tensor([float("nan"), -0.0]), torch.empty(0, 3)):
        assert toy.change(value, "not") == 1


def test_the_name_of_the_called_function_is_no_argument():
    """A replay on another implementation calls the same object, which may have another name there."""
    recorded = pack([len, ([1, 2],), {}], lambda _: [0, "<lambda>"])
    assert changed_argument(len, ([1, 2],), {}, recorded, lambda _: [0, "len"], lambda _: len) is None
    assert changed_argument(len, ([1, 3],), {}, recorded, lambda _: [0, "len"], lambda _: len) == ""


def test_a_thread_left_running_is_reported_and_a_joined_one_is_accepted(toy):
    assert toy.thread(0.01, True) == 1
    with pytest.raises(RuleBroken, match=r"the call left a thread running \(helper\); join every thread"):
        toy.thread(30, False)
    before = threading.active_count()
    assert toy.thread(0.05, False) == 0, "a thread that ends by itself at once is accepted"
    assert threading.active_count() <= before


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("x = 1\nraise ValueError('at import')\n", 2, "ValueError: at import"),
        ("import nowhere_to_be_found\n", 1, "ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("def f(:\n    pass\n", 1, "SyntaxError"),
        ("import sys\nsys.exit()\n", 2, "it ended the program"),
        ("from .ch09_other import x\n", 1, "there is no chapter ch09_other"),
        ("def f():\n    raise NotImplementedError\nf()\n", 0, "a stub is called at the top level"),
    ],
)
@pytest.mark.parametrize("kind", QUICK_KINDS)
def test_a_chapter_that_does_not_import_is_one_sentence(worker_pool, kind, text, line, words):
    with opened(kind, worker_pool, text) as boundary:
        with pytest.raises(ChapterBroken, match=words) as caught:
            boundary.begin(0)
    where = caught.value.where
    assert (where.line if where else 0) == line and (where is None or where.file == FILENAME.rpartition("/")[2])


@pytest.mark.parametrize(("folder", "why"), [("kit/solutions", ": while this chapter is tested, that one is the reference's. Define helpers"), ("mine", "$")])
def test_a_helper_that_an_earlier_chapter_lacks_is_a_sentence_without_a_path(folder, why):
    sources = [ChapterSource("toy", "from .ch01_one import helper\n", FILENAME), ChapterSource("ch01_one", "x = 1\n", f"{folder}/ch01_one.py")]
    boundary = Boundary(InProcessHost(sources, "toy", 1.0, 10.0))
    with pytest.raises(ChapterBroken, match="there is no helper in ch01_one.py" + why) as caught:
        boundary.begin(0)
    assert "solutions" not in str(caught.value)
    boundary.connection.close()


def test_in_process_an_import_ends_in_time_too():
    with opened("local", None, "while True:\n    pass\n", import_seconds=0.3) as boundary:
        with pytest.raises(ChapterBroken, match="importing it did not end within 0.3 s") as caught:
            boundary.begin(0)
        assert caught.value.timed_out


@posix
def test_control_c_ends_the_run_even_if_the_code_catches_everything():
    text = "import os, signal\ndef f():\n    try:\n        os.kill(os.getpid(), signal.SIGINT)\n        while True: pass\n    except BaseException:\n"
    with opened("local", None, text + "        return 1\ndef g():\n    raise KeyboardInterrupt\n") as boundary:
        boundary.begin(0)
        with pytest.raises(LearnerError) as caught:
            Implementation(boundary).g()
        assert caught.value.type_name == "KeyboardInterrupt"
        with pytest.raises(KeyboardInterrupt):
            Implementation(boundary).f()


def test_in_process_too_a_call_ends_in_time_and_cannot_end_the_process():
    with opened("local", None, seconds=0.3) as boundary:
        boundary.begin(0)
        toy = Implementation(boundary)
        before = signal.getsignal(signal.SIGALRM)
        for how in ("sleep", "spin"):
            with pytest.raises(OutOfTime, match="did not end within 0.3 s"):
                toy.stall(how)
            assert toy.add(1, 2) == 3
        assert signal.getsignal(signal.SIGALRM) == before
        for how in ("exit", "abort"):
            with pytest.raises(HostDied, match="your code ended the process"):
                toy.die(how)


# ---- gradients


@pytest.mark.parametrize("watched", [(), load_syllabus().exercise("gelu_backward").forbids], ids=["unwatched", "watched"])
def test_the_code_did_not_raise_what_autograd_raises_afterwards(toy_boundary, toy, watched):
    def changes_what_is_needed(x):
        y = torch.exp(x)
        y.add_(1)
        return y * y

    def has_its_own_backward(x):
        class Own(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, grad):
                raise RuntimeError("own words")

        return Own.apply(x)

    toy_boundary.begin(7, watched)
    toy_boundary.begin(7)  # once prepared, functions of torch stay watched
    sentence = "^the gradient of the result cannot be computed: a tensor that it depends on is changed in place; compute a new tensor$"
    with pytest.raises(RuleBroken, match=sentence):
        gradients(toy.bring(changes_what_is_needed), torch.ones(3))
    with pytest.raises(RuntimeError, match="^own words$") as caught:
        gradients(toy.bring(has_its_own_backward), torch.ones(3))
    assert not isinstance(caught.value, RuleBroken)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_results_that_autograd_cannot_use_are_named_by_their_kind(toy):
    unusual = toy.bring(_unusual)
    assert gradients(unusual, torch.ones(2, 2), "complex", cotangent=torch.ones(2, 2)).inputs == [None, None]
    for kind in ("nested", "sparse"):
        with pytest.raises(RuleBroken, match=f"^returned a {kind}\\w* tensor, where an ordinary"):
            gradients(unusual, torch.ones(2, 2), kind, cotangent=torch.ones(2, 2))
    with pytest.raises(RuleBroken, match="^contains a sparse_coo tensor, where an ordinary"):
        toy.bring(_holder)().value  # noqa: B018


def _unusual(x, kind):
    if kind == "complex":
        return x * 1j
    return torch.nested.nested_tensor([x, x[:1]]) if kind == "nested" else x.to_sparse()


def _holder():
    class Holder:
        value = torch.ones(2).to_sparse()

    return Holder()
