"""Laws about memory and work: what the watch counts, what it says, and that no way of keeping numbers escapes it."""

import pytest
import torch
from boundaries import QUICK_KINDS, opened
from grader.execution.proxy import Implementation
from grader.verdict.comparing import Mismatch
from grader.verdict.memory import watch_call, watch_gradients, watch_growth

CODE = """
import pickle
import threading

import numpy as np
import torch


class Stash(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, how):
        ctx.how, table = how, torch.softmax(x @ x.T, -1)
        out = x * 2
        if how == "given to autograd":
            ctx.save_for_backward(table)
        elif how == "attribute":
            ctx.table = table
        elif how == "list":
            ctx.rows = [row.clone() for row in table]
        elif how == "closure":
            ctx.later = lambda: table
        elif how == "output":
            ctx.out = out
        return out

    @staticmethod
    def backward(ctx, grad):
        if ctx.how == "large gradient":
            torch.ones(100, 100) + 1
        return 2 * grad, None


def stash(x, how):
    return Stash.apply(x, how)


def doubled(x):
    return 2 * x


def table(x):
    return (x @ x.T) @ x


def element_by_element(x):
    return torch.stack([(row * x).sum(-1) @ x for row in x])


def with_positions(x):
    at = torch.arange(len(x))
    return sum(((at * at)[:, None] * row.gt(0)).sum() for row in x) + 2 * x


def rows_in_a_list(x):
    parts = [row @ x.T for row in x]
    return torch.stack([part @ x for part in parts])


def one_row_at_a_time(x):
    out = torch.empty_like(x)
    for i, row in enumerate(x):
        out[i] = (row @ x.T) @ x
    return out


def views_only(x):
    large = x[:, :1].expand(-1, 10_000)
    return x.T.reshape(-1)[:3].clone() + large[0, 0] * 0


def leaves(x, how, many=80):
    few = x.detach().flatten()[:many]
    if how == "numpy":
        few.numpy()
    elif how == "numpy itself":
        np.asarray(few)
    elif how == "dlpack":
        np.from_dlpack(few)
    elif how == "list":
        few.tolist()
    elif how == "items":
        [float(number) for number in few]
    elif how == "text":
        torch.set_printoptions(precision=9)
        text = repr(few)
        torch.set_printoptions(profile="default")
    elif how == "storage":
        few.untyped_storage()
    elif how == "pickle":
        pickle.dumps(few)
    elif how == "address":
        few.data_ptr()
    elif how == "print":
        print(few, few.shape)
    elif how == "truth":
        [bool(number) for number in few > 0]
    return x + 0


def table_in_a_thread(x):
    found = []
    thread = threading.Thread(target=lambda: found.append(table(x)))
    thread.start()
    thread.join()
    return found[0]


def in_place(x):
    out = torch.zeros(10)
    for _ in range(50):
        out += 1
        out.mul_(2)
    return out
"""


@pytest.fixture(params=QUICK_KINDS, scope="module")
def boundary(request, worker_pool):
    with opened(request.param, worker_pool, CODE) as boundary:
        yield boundary


@pytest.fixture
def side(boundary):
    boundary.begin(0)
    return Implementation(boundary)


X = torch.linspace(-1, 1, 80).reshape(20, 4)


def refused(watched):
    with pytest.raises(Mismatch) as caught:
        watched.check()
    return caught.value.sentence


def test_a_large_tensor_is_named_with_its_shape(side):
    watched = watch_call(side, side.table, X, largest=400)
    assert refused(watched) == "Line 42 made a tensor of 20 × 20, 400 entries; the largest allowed here has fewer than 400"
    watch_call(side, side.table, X, largest=401).check()
    assert torch.allclose(watched.result, X @ X.T @ X)


def test_a_list_of_small_tensors_counts_together(side):
    in_list, one = (watch_call(side, f, X, largest=100, alive=400) for f in (side.rows_in_a_list, side.one_row_at_a_time))
    assert "entries together" in refused(in_list) and in_list.exceeded == ["alive"]
    one.check()
    assert torch.allclose(in_list.result, one.result)


def test_views_and_changes_in_place_cost_nothing(side):
    watch_call(side, side.views_only, X, largest=90, alive=200).check()
    watch_call(side, side.in_place, X, largest=11, alive=30).check()


@pytest.mark.parametrize(
    ("how", "exceeded"),
    [("nothing", []), ("given to autograd", ["kept", "stored"]), ("attribute", ["stored"]), ("list", ["stored"]), ("closure", ["stored"]), ("output", ["left"])],
)
def test_wherever_numbers_wait_for_the_backward_pass_they_are_seen(side, how, exceeded):
    watched = watch_gradients(side, side.stash, X, how, kept=399, left=0)
    assert watched.exceeded == exceeded
    assert torch.allclose(watched.gradients[0], 2 * torch.arange(80).mul(0.7).add(0.3).cos().reshape(20, 4))
    if exceeded:
        sentence = refused(watched)
        assert ("80 entries are still stored" if how == "output" else "400 entries") in sentence
    else:
        watched.check()


def test_the_backward_pass_is_watched_too(side):
    watched = watch_gradients(side, side.stash, X, "large gradient", largest=500)
    assert refused(watched).startswith("Line 29 made a tensor of 100 × 100, 10,000 entries")


def test_arguments_and_parameters_do_not_count(side):
    watch_gradients(side, side.doubled, X, largest=81, kept=0, left=0).check()


def test_multiplications_are_counted(side):
    small, large = (torch.ones(n, 4) for n in (16, 32))
    square = watch_growth(side, side.table, (small,), (large,), ratio=2.2)
    assert refused(square) == "Twice as many positions take 4 times as many multiplications; at most 2.2 times as many are allowed here"
    assert "times as many multiplications" in refused(watch_growth(side, side.element_by_element, (small,), (large,), ratio=2.2))
    for f in (side.doubled, side.with_positions):
        watch_growth(side, f, (small,), (large,), ratio=2.2).check()


def test_operations_are_counted(side):
    small, large = (torch.ones(n, 4) for n in (4, 40))
    looping = watch_growth(side, side.element_by_element, (small,), (large,), operations=4)
    assert refused(looping).startswith("A longer text takes ")
    assert refused(looping).endswith(" times as many operations of torch; at most 4 times as many are allowed here")
    watch_growth(side, side.table, (small,), (large,), operations=1).check()


def test_the_sizes_are_not_in_the_log(side):
    """The diagnosis compares the log with a mistake's: two pieces of code with one fault rarely need the same memory."""
    watched = watch_call(side, side.table, X, largest=100)
    log = watched.helper._boundary.log
    before = len(log)
    assert "20 × 20" in refused(watched) and len(log) == before
    assert "shape" not in str([exchange.reply for exchange in log])


@pytest.mark.parametrize("how", ["numpy", "numpy itself", "dlpack", "list", "items", "text", "storage", "pickle", "address"])
def test_numbers_that_leave_torch_are_counted(side, how):
    """Where nothing is counted, no law about memory or work holds; a few numbers may leave, for a decision."""
    watched = watch_call(side, side.leaves, X, how, largest=1000)
    assert watched.exceeded == ["taken_out"] and " takes numbers out of torch with " in refused(watched)
    assert watch_gradients(side, side.leaves, X, how, largest=1000).exceeded == ["taken_out"]
    if how not in ("storage", "pickle"):  # they give the whole storage
        watch_call(side, side.leaves, X, how, 9, largest=1000).check()


@pytest.mark.parametrize("how", ["truth", "print"])
def test_a_decision_and_a_line_to_look_at_are_free(side, how):
    watch_call(side, side.leaves, X, how, largest=1000).check()


def test_work_that_leaves_torch_is_no_work_at_all(side):
    watched = watch_growth(side, side.leaves, (X,), (X.repeat(2, 1),), "numpy", ratio=2.2)
    assert watched.exceeded == ["taken_out"]
