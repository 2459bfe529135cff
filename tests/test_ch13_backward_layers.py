"""Chapter 13, continued: linear_backward and gelu_backward."""

import torch
from backward_laws import (
    HALF_PRECISION,
    by_autograd,
    by_measuring,
    combined,
    compare_gradients,
    computed,
    in_bfloat16,
    is_measured,
    leading,
    linear,
    on_inference_tensors,
    on_views,
    result_number,
    rounded,
)
from devices_and_dtypes import check_device_of_result
from grader.runner.marks import exercise
from grader.verdict.comparing import close
from hypothesis import example, given, settings
from hypothesis import strategies as st
from strategies import at, distinct, seeds, tensor

few = settings(max_examples=3)  # for tests that a mistake breaks at every example: more examples would only take time
double = torch.float64
forms = {False: "the exact form", True: "the tanh form"}


# ---- linear_backward


def names(x, weight, bias):
    return {"grad_x": x, "grad_weight": weight, "grad_bias": bias}


def linear_inputs(seed, n, lead, dtype=double):
    """x, weight, bias and grad_out with this many leading axes."""
    front = leading(n, "B", "T", lead=lead)
    return tensor(seed, *front, n.n, dtype=dtype), tensor(seed + 1, n.m, n.n, dtype=dtype), tensor(seed + 2, n.m, dtype=dtype), tensor(seed + 3, *front, n.m, dtype=dtype)


widths = distinct("B", "T", "n", "m")


@exercise("linear_backward", weight=4)
@example(n=at(B=2, T=3, n=4, m=5), lead=0, seed=0)
@example(n=at(B=2, T=3, n=4, m=5), lead=2, seed=0)
@example(n=at(B=1, T=3, n=4, m=5), lead=2, seed=0)
@example(n=at(A=1, B=2, T=3, n=4, m=5), lead=3, seed=0)
@example(n=at(B=2, T=3, n=4, m=1), lead=1, seed=0)
@given(n=widths, lead=st.integers(0, 2), seed=seeds)
def test_linear_agrees_with_autograd(learner, reference, n, lead, seed):
    """grad_x, grad_weight and grad_bias are autograd's gradients of x W^T + b, for any number of leading axes, also none."""
    x, weight, bias, grad_out = linear_inputs(seed, n, lead)
    got = learner.linear_backward(x, weight, grad_out)
    compare_gradients(got, names(*by_autograd(reference.bring(linear), grad_out, x, weight, bias)))


@exercise("linear_backward", weight=2)
@few
@given(n=distinct("T", "D"), seed=seeds)
def test_linear_with_as_many_features_out_as_in(learner, reference, n, seed):
    """With a square weight the matrices are transposed in the right places, although a wrong place would give the same shapes."""
    x, weight, grad_out = (tensor(seed + i, n.T if i != 1 else n.D, n.D, dtype=double) for i in range(3))
    got = learner.linear_backward(x, weight, grad_out)
    compare_gradients(got, names(*by_autograd(reference.bring(linear), grad_out, x, weight, torch.zeros(n.D, dtype=double))))


@exercise("linear_backward", weight=11)
@few
@given(n=distinct("T", "n", "m", least=2, most=4), seed=seeds)
def test_linear_agrees_with_numeric_gradient(learner, n, seed):
    """The three gradients are what numeric_gradient measures, but computed by a rule: without two forward passes for each entry."""
    x, weight, bias, grad_out = (tensor(seed + i, *shape, dtype=double) for i, shape in enumerate([(n.T, n.n), (n.m, n.n), (n.m,), (n.T, n.m)]))
    got = learner.linear_backward(x, weight, grad_out)
    measured = by_measuring(learner, learner.bring(linear), grad_out, x, weight, bias)
    wasteful = is_measured(learner, learner.linear_backward, *(tensor(seed + i, *shape, dtype=double) for i, shape in enumerate([(4, 8), (6, 8), (4, 6)])))
    compare_gradients(got, names(*measured), " against the measured gradient", tol=1e-6)
    computed(wasteful)


@exercise("linear_backward")
def test_the_worked_numbers_of_a_linear_layer(learner):
    """For x = [[1, 2], [3, 0]], W = [[3, 4], [5, 6]] and grad_out = [[1, 0], [0, 2]] the gradients are those of the lesson."""
    got = learner.linear_backward(torch.tensor([[1.0, 2.0], [3.0, 0.0]]), torch.tensor([[3.0, 4.0], [5.0, 6.0]]), torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
    compare_gradients(got, names(torch.tensor([[3.0, 4.0], [10.0, 12.0]]), torch.tensor([[1.0, 2.0], [6.0, 0.0]]), torch.tensor([1.0, 2.0])))


@exercise("linear_backward")
@few
@given(n=widths, seed=seeds)
def test_linear_gradients_are_linear_in_grad_out(learner, n, seed):
    """Twice one grad_out minus another gives twice the gradients of the one minus those of the other; grad_out = 0 gives 0."""
    x, weight, _, one = linear_inputs(seed, n, 2)
    other = tensor(seed + 9, n.B, n.T, n.m, dtype=double)
    got, nothing = learner.linear_backward(x, weight, 2 * one - other), learner.linear_backward(x, weight, 0 * one)
    first, second = learner.linear_backward(x, weight, one), learner.linear_backward(x, weight, other)
    expected = one @ weight, one.flatten(0, 1).T @ x.flatten(0, 1), one.sum((0, 1))
    compare_gradients(first, names(*expected))
    compare_gradients(got, names(*combined(first, second, 2.0, -1.0)), " of 2 * one - other")
    compare_gradients(nothing, names(*[torch.zeros_like(gradient) for gradient in expected]), " of grad_out = 0")


@exercise("linear_backward", weight=2)
@few
@given(n=widths, seed=seeds)
def test_linear_dtype_device_and_views(learner, reference, n, seed):
    """The gradients have the dtype and device of the input, the arguments may be views, and autograd is not used."""
    x, weight, _, grad_out = linear_inputs(seed, n, 2, torch.float32)
    expected = reference.linear_backward(x, weight, grad_out)
    got = learner.linear_backward(x, weight, grad_out)
    turned = learner.bring(on_views)(learner.linear_backward, x, weight, grad_out)
    still = learner.bring(on_inference_tensors)(learner.linear_backward, x, weight, grad_out)
    half = learner.bring(in_bfloat16)(learner.linear_backward, x, weight, grad_out)
    compare_gradients(got, names(*expected), " in float32", tol=1e-4)
    compare_gradients(still, names(*expected), " in inference mode", tol=1e-4)
    compare_gradients(turned, names(*expected), " for tensors that are not contiguous", tol=1e-4)
    compare_gradients(half, names(*rounded(expected)), " in bfloat16", HALF_PRECISION)
    for place in range(3):
        check_device_of_result(learner, expected[place], learner.bring(result_number)(learner.linear_backward, place), x, weight, grad_out)


# ---- gelu_backward


@exercise("gelu_backward", weight=3)
@given(n=distinct("B", "T", "D"), seed=seeds)
def test_the_exact_gelu_agrees_with_autograd(learner, reference, n, seed):
    """grad_out is multiplied by the slope of gelu at x, element by element: Φ(x) + x φ(x)."""
    x, grad_out = tensor(seed, n.B, n.T, n.D, scale=1.5, dtype=double), tensor(seed + 1, n.B, n.T, n.D, dtype=double)
    got = [learner.gelu_backward(x, grad_out), learner.gelu_backward(x, grad_out, False), learner.gelu_backward(x, grad_out, approximate=False)]
    expected = by_autograd(reference.gelu, grad_out, x)[0]
    for gradient in got:
        close(gradient, expected, f"grad_x in {forms[False]}")


@exercise("gelu_backward", weight=3)
@given(n=distinct("B", "T", "D"), seed=seeds)
def test_the_tanh_form_of_gelu_agrees_with_autograd(learner, reference, n, seed):
    """With approximate=True it is the slope of the tanh form, whose inner derivative contains 3 * 0.044715 * x^2."""
    x, grad_out = tensor(seed, n.B, n.T, n.D, scale=1.5, dtype=double), tensor(seed + 1, n.B, n.T, n.D, dtype=double)
    got = [learner.gelu_backward(x, grad_out, approximate=True), learner.gelu_backward(x, grad_out, True)]
    expected = by_autograd(reference.gelu, grad_out, x, True)[0]
    for gradient in got:
        close(gradient, expected, f"grad_x in {forms[True]}")


@exercise("gelu_backward", weight=10)
@few
@given(n=distinct("A", "B", least=2, most=4), seed=seeds)
def test_gelu_agrees_with_numeric_gradient(learner, n, seed):
    """In both forms the gradient is what numeric_gradient measures, but computed by a rule: without two forward passes for each entry."""
    x, grad_out = tensor(seed, n.A, n.B, dtype=double), tensor(seed + 1, n.A, n.B, dtype=double)
    got = {form: learner.gelu_backward(x, grad_out, form) for form in forms}
    measured = {form: by_measuring(learner, learner.gelu, grad_out, x, form)[0] for form in forms}
    wasteful = [is_measured(learner, learner.gelu_backward, tensor(seed, 4, 8, dtype=double), tensor(seed + 1, 4, 8, dtype=double), form) for form in forms]
    for form, name in forms.items():
        close(got[form], measured[form], f"grad_x in {name}, against the measured gradient,", tol=1e-6)
    for measuring in wasteful:
        computed(measuring)


@exercise("gelu_backward")
@few
@given(shift=st.integers(0, 2))
def test_the_slope_of_gelu_at_zero_and_plus_and_minus_one(learner, shift):
    """The slope at -1, 0 and 1 is -0.083315, 0.5 and 1.083315, and in the tanh form -0.082964, 0.5 and 1.082964."""
    x, ones = torch.tensor([-1.0, 0.0, 1.0], dtype=double).roll(shift), torch.ones(3, dtype=double)
    got = {form: learner.gelu_backward(x, ones, form) for form in forms}
    for form, edge in ((False, 0.083315), (True, 0.082964)):
        expected = torch.tensor([-edge, 0.5, 1 + edge], dtype=double).roll(shift)
        close(got[form], expected, f"the slope in {forms[form]}", tol=1e-6)


@exercise("gelu_backward", weight=2)
@few
@given(seed=seeds)
def test_far_from_zero_the_slope_of_gelu_is_zero_or_one(learner, seed):
    """Far above 0 grad_out passes unchanged, far below it nothing passes, and nothing overflows to NaN."""
    x = torch.cat([tensor(seed, 5, dtype=double).abs() + size for size in (9.0, 60.0, 1e3, 1e5)])
    x, grad_out = torch.cat([x, -x]), tensor(seed + 1, 40, dtype=double)
    got = {form: learner.gelu_backward(x, grad_out, form) for form in forms}
    single = {form: learner.gelu_backward(x.float(), grad_out.float(), form) for form in forms}
    for form, name in forms.items():
        close(got[form], grad_out * (x > 0), f"grad_x far from zero, in {name},")
        close(single[form], grad_out.float() * (x > 0), f"grad_x far from zero, in {name} and float32,")


@exercise("gelu_backward", weight=2)
@few
@given(n=distinct("B", "T", "D"), seed=seeds)
def test_gelu_dtype_device_and_shape(learner, reference, n, seed):
    """The result has the shape, dtype and device of x, for one number too, and autograd is not used."""
    x, grad_out = tensor(seed, n.B, n.T, n.D, scale=1.5), tensor(seed + 1, n.B, n.T, n.D)
    quiet, one = learner.bring(on_inference_tensors), (x[0, 0, 0], grad_out[0, 0, 0])
    turned = learner.bring(on_views)(learner.gelu_backward, x, grad_out)
    half = {form: learner.bring(in_bfloat16)(learner.gelu_backward, x, grad_out, form) for form in forms}
    got = {form: (learner.gelu_backward(x, grad_out, form), learner.gelu_backward(*one, form), quiet(learner.gelu_backward, x, grad_out, form)) for form in forms}
    for form, name in forms.items():
        expected = reference.gelu_backward(x, grad_out, form)
        close(got[form][0], expected, f"grad_x in {name} and float32", tol=1e-4)
        close(got[form][1], expected[0, 0, 0], f"grad_x of one number in {name}", tol=1e-3)
        close(got[form][2], expected, f"grad_x in {name}, in inference mode", tol=1e-4)
        close(half[form], expected.bfloat16(), f"grad_x in {name} and bfloat16", HALF_PRECISION)
    close(turned, reference.gelu_backward(x, grad_out), "grad_x for tensors that are not contiguous", tol=1e-4)
    check_device_of_result(learner, x, learner.gelu_backward, x, grad_out)


@exercise("gelu_backward")
@few
@given(n=distinct("T", "D"), seed=seeds)
def test_gelu_gradients_are_linear_in_grad_out(learner, n, seed):
    """Twice one grad_out minus another gives twice the gradient of the one minus that of the other; where grad_out is 0, so is the result."""
    x, one, other = (tensor(seed + i, n.T, n.D, dtype=double) for i in range(3))
    one[0, 0] = other[0, 0] = 0.0
    got, first, second = (learner.gelu_backward(x, g) for g in (2 * one - other, one, other))
    slope = torch.special.ndtr(x) + x * torch.exp(-(x**2) / 2) / (2 * torch.pi) ** 0.5
    close(first, one * slope, "grad_x")
    close(got, 2 * first - second, "grad_x of 2 * one - other")
