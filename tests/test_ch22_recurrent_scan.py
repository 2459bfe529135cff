"""Chapter 22, third part: a recurrence over T positions in log₂ T rounds."""

from __future__ import annotations

import torch
from devices_and_dtypes import check_device_of_result
from grader.execution.proxy import gradients
from grader.runner.marks import exercise
from grader.verdict.comparing import close
from grader.verdict.memory import watch_call, watch_growth
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_layouts import of_views
from module_pairs import compare_gradient
from pytest_check import check
from strategies import distinct, seeds, tensor

few = settings(max_examples=3)
double = torch.float64
EXACT = 1e-10  # relative, for float64: another order of the same sums is off by less
scan_sizes = distinct("T", "B", "D", T=(5, 13), B=(2, 4), D=(3, 5))


def factors_and_inputs(seed, *shape, dtype=double):
    """Factors of either sign, of about 1, and inputs."""
    return tensor(seed, *shape, dtype=dtype), tensor(seed + 1, *shape, dtype=dtype)


def step_by_step(a, b):
    """Each position from the one before it, in float64."""
    x, results = torch.zeros_like(b[0], dtype=double), []
    for a_t, b_t in zip(a.double(), b.double()):
        x = a_t * x + b_t
        results.append(x)
    return torch.stack(results)


@exercise("doubling_scan", weight=4)
@few
@given(n=scan_sizes, axes=st.integers(0, 2), seed=seeds)
def test_the_scan_is_the_recurrence(learner, n, axes, seed):
    """x_t = a_t x_{t-1} + b_t along the first axis, from 0 on, for any number of other axes; in float64, to ten digits."""
    a, b = factors_and_inputs(seed, n.T, *(n.B, n.D)[:axes])
    close(learner.doubling_scan(a, b), step_by_step(a, b), "x", tol=EXACT)


@exercise("doubling_scan", weight=3)
def test_the_scan_has_any_length(learner):
    """It is the recurrence for every T from 1 to 17, whether T is a power of two or not."""
    texts = {T: factors_and_inputs(T, T, 2) for T in range(1, 18)}
    found = {T: learner.doubling_scan(*inputs) for T, inputs in texts.items()}
    for T, inputs in texts.items():
        close(found[T], step_by_step(*inputs), f"x for T = {T}", tol=EXACT)


@exercise("doubling_scan", weight=3)
@few
@given(n=scan_sizes, seed=seeds)
def test_factors_may_be_zero_or_tiny(learner, n, seed):
    """Where a_t is 0, x_t is b_t. Products of many small factors become 0, and x stays right, in float32 too."""
    a, b = factors_and_inputs(seed, n.T, n.B)
    a[1 + seed % (n.T - 1)], a[0] = 0.0, 0.0
    small, long = factors_and_inputs(seed, 60, n.B, dtype=torch.float32)
    small = 0.1 * small
    found, tiny = learner.doubling_scan(a, b), learner.doubling_scan(small, long)
    close(found, step_by_step(a, b), "x where some factors are 0", tol=EXACT)
    close(tiny, step_by_step(small, long).float(), "x for 60 small factors in float32")


@exercise("doubling_scan", weight=4)
def test_a_scan_takes_few_operations(learner):
    """64 times as many positions take about three times as many torch operations: 8 need three rounds, and 512 need nine."""
    small, large = (factors_and_inputs(3, T, 2) for T in (8, 512))
    large = (large[0].clamp(-1, 1), large[1])
    watched = watch_growth(learner, learner.doubling_scan, small, large, operations=5)
    close(watched.result, step_by_step(*large), "x for 512 positions")
    watched.check()


@exercise("doubling_scan", weight=2)
def test_a_scan_makes_no_large_tensor(learner):
    """With 300 positions, no tensor has four times as many numbers as b: there is no table of 300 × 300."""
    a, b = factors_and_inputs(5, 300, 2)
    a = a.clamp(-1, 1)
    watched = watch_call(learner, learner.doubling_scan, a, b, largest=4 * b.numel())
    close(watched.result, step_by_step(a, b), "x for 300 positions")
    watched.check()


@exercise("doubling_scan", weight=3)
@few
@given(n=scan_sizes, seed=seeds)
def test_factors_and_inputs_get_gradients(learner, n, seed):
    """a and b get the gradients of the recurrence, also where a_t is 0."""
    a, b = factors_and_inputs(seed, n.T, n.B)
    a[n.T // 2] = 0.0
    cotangent = tensor(seed + 2, n.T, n.B, dtype=double)
    found = gradients(learner.doubling_scan, a, b, cotangent=cotangent)
    leaves = [x.clone().requires_grad_() for x in (a, b)]
    right = torch.autograd.grad((step_by_step(*leaves) * cotangent).sum(), leaves)
    for name, got, value in zip("ab", found.inputs, right):
        with check:
            compare_gradient(got, value, name, tol=1e-9)


@exercise("doubling_scan")
@few
@given(n=scan_sizes, seed=seeds)
def test_a_scan_keeps_dtype_device_and_layout(learner, n, seed):
    """float32 stays float32, views give the same, axes of size 1 stay, and no tensor stays on another device."""
    a, b = factors_and_inputs(seed, n.T, n.B, n.D, dtype=torch.float32)
    plain, views = learner.doubling_scan(a, b), learner.bring(of_views)(learner.doubling_scan, a, b)
    one = learner.doubling_scan(a[:, :1, :1], b[:, :1, :1])
    right = step_by_step(a, b).float()
    close(plain, right, "x in float32")
    close(views, right, "x for views")
    close(one, right[:, :1, :1], "x for axes of size 1")
    check_device_of_result(learner, right, learner.doubling_scan, a, b)


@exercise("doubling_scan")
@few
@given(n=scan_sizes, seed=seeds)
def test_each_number_of_the_other_axes_is_a_recurrence(learner, n, seed):
    """Another factor and input of one feature change that feature's x from this position on, and nothing else."""
    a, b = factors_and_inputs(seed, n.T, n.D)
    t, feature = seed % n.T, seed % n.D
    other_a, other_b = a.clone(), b.clone()
    other_a[t, feature], other_b[t, feature] = 2.0, -5.0
    before, after = learner.doubling_scan(a, b), learner.doubling_scan(other_a, other_b)
    close(after, step_by_step(other_a, other_b), "x after the change", tol=EXACT)
    untouched = torch.ones(n.T, n.D, dtype=torch.bool)
    untouched[t:, feature] = False
    close(after[untouched], before[untouched], f"x before position {t}, and of other features than {feature}, after the change", tol=EXACT)
