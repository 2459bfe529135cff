"""Chapter 13, first part: measuring a gradient. The layers are in test_ch13_backward_layers.py and three further files, Scalar in test_ch13_backward_scalar.py."""

import torch
from backward_laws import on_inference_tensors, on_views
from grader.runner.marks import exercise
from grader.verdict.comparing import close, same, sizes
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import distinct, seeds, tensor

few = settings(max_examples=3)  # for tests that a mistake breaks at every example: more examples would only take time
double = torch.float64


# ---- functions to measure, for `bring`


def cubes(factors):
    """The sum of factor * x^3: central differences are off by exactly factor * eps^2."""

    def f(x):
        return (factors * x**3).sum()

    return f


def waves(factors):
    """A function in which every entry matters for the slope of every other one."""

    def f(x):
        return torch.sin((factors * x).sum()) + (x * x.roll(1)).sum()

    return f


def as_kind(factors, kind):
    """The same number, as a float, as a tensor without axes, or as one with two axes."""

    def f(x):
        total = (factors * x**2).sum()
        return total.item() if kind == "float" else total.reshape(1, 1) if kind == "tensor of one element" else total

    return f


def spoiling(factors):
    """Changes its argument after use."""

    def f(x):
        total = (factors * x**2).sum().item()
        x.fill_(7.0)
        return total

    return f


def expanded(numeric_gradient, f, row, shape):
    return numeric_gradient(f, row.expand(shape))


class Notes:
    """A function that notes which tensors it is called with."""

    def __init__(self):
        self.seen = []

    def __call__(self, x):
        kind = str(x.dtype).removeprefix("torch.") if isinstance(x, torch.Tensor) else type(x).__name__
        self.seen.append([kind, list(getattr(x, "shape", []))])
        return (x.double() ** 2).sum()

    def kinds(self):
        return [[name, list(shape)] for name, shape in sorted({(name, tuple(shape)) for name, shape in self.seen})]


def two_tensors(seed, n, axes):
    """A tensor with this many axes, and factors of the same shape, both float64."""
    sizes(**{name: None for name in ("A", "B", "C")[axes:]})
    shape = (n.A, n.B, n.C)[:axes]
    return tensor(seed, *shape or [1], dtype=double).reshape(shape), tensor(seed + 1, *shape or [1], dtype=double).reshape(shape)


# ---- numeric_gradient


@exercise("numeric_gradient", weight=3)
@given(n=distinct("A", "B", "C", least=1, most=4), axes=st.integers(0, 3), seed=seeds)
def test_each_entry_has_the_slope_in_its_direction(learner, n, axes, seed):
    """Entry i of the result is the slope of f if entry i of x changes alone, for a tensor of any shape, () too."""
    x, factors = two_tensors(seed, n, axes)
    got = learner.numeric_gradient(learner.bring(waves)(factors), x)
    expected = factors * torch.cos((factors * x).sum()) + x.roll(1) + x.roll(-1)
    close(got, expected, "the measured gradient", tol=1e-7)


@exercise("numeric_gradient", weight=3)
@few
@given(n=distinct("A", "B", "C", least=2, most=4), axes=st.integers(1, 2), eps=st.sampled_from([0.1, 0.25, 0.5]), seed=seeds)
def test_the_error_on_a_cubic_is_eps_squared(learner, n, axes, eps, seed):
    """For x^3 the result is exactly 3 x^2 + eps^2: the points are eps above and eps below x, and their distance is 2 eps."""
    x, factors = two_tensors(seed, n, axes)
    f = learner.bring(cubes)(factors)
    got, named = learner.numeric_gradient(f, x, eps), learner.numeric_gradient(f, x, eps=2 * eps)
    close(got, factors * (3 * x**2 + eps**2), f"the measured gradient of factor * x^3 with eps = {eps}")
    close(named, factors * (3 * x**2 + 4 * eps**2), f"the measured gradient of factor * x^3 with eps = {2 * eps}")


@exercise("numeric_gradient")
def test_the_gradient_of_x_cubed_at_one(learner):
    """For x^3 at 1, eps = 0.1 gives 3.01 and eps = 0.5 gives 3.25; the default eps = 1e-5 gives 3.0000000001."""
    one = torch.tensor(1.0, dtype=double)
    f, steep = learner.bring(cubes)(one), learner.bring(cubes)(1e10 * one)
    got = [learner.numeric_gradient(f, one, eps) for eps in (0.1, 0.5)]
    exact, at_zero = learner.numeric_gradient(f, one), learner.numeric_gradient(steep, 0 * one)
    for value, expected in zip(got, (3.01, 3.25)):
        close(value, expected * one, "the measured gradient of x^3 at 1")
    close(exact, 3 * one, "the measured gradient of x^3 at 1 with the default eps", tol=1e-8)
    close(at_zero, one, "the measured gradient of 1e10 * x^3 at 0, which is 1e10 * eps^2 with the default eps = 1e-5,", tol=1e-6)


@exercise("numeric_gradient", weight=2)
@few
@given(n=distinct("A", "B", "C", least=2, most=4), seed=seeds)
def test_a_view_is_measured_in_the_order_of_its_own_entries(learner, n, seed):
    """x need not be contiguous: a transposed or expanded tensor gives the same as its numbers in a contiguous one."""
    x, factors = tensor(seed, n.A, n.B, n.C, dtype=double), tensor(seed + 1, n.A, n.B, n.C, dtype=double)
    row, f = tensor(seed + 2, n.C, dtype=double), learner.bring(cubes)(factors)
    plain, turned = learner.numeric_gradient(f, x), learner.bring(on_views)(learner.numeric_gradient, f, x)
    repeated = learner.bring(expanded)(learner.numeric_gradient, f, row, [n.A, n.B, n.C])
    close(plain, 3 * factors * x**2, "the measured gradient", tol=1e-7)
    close(turned, 3 * factors * x**2, "the measured gradient for an x that is a transposed view", tol=1e-7)
    close(repeated, 3 * factors * row**2, "the measured gradient for an expanded x", tol=1e-7)


@exercise("numeric_gradient", weight=2)
@few
@given(n=distinct("A", "B", least=2, most=4), seed=seeds)
def test_f_may_return_a_float_or_a_tensor(learner, n, seed):
    """f returns one number: a float, a tensor without axes, or a tensor of one element."""
    x, factors = tensor(seed, n.A, n.B, dtype=double), tensor(seed + 1, n.A, n.B, dtype=double)
    make = learner.bring(as_kind)
    got = {kind: learner.numeric_gradient(make(factors, kind), x) for kind in ("float", "tensor of one element", "tensor without axes")}
    for kind, value in got.items():
        close(value, 2 * factors * x, f"the measured gradient of a function that returns a {kind}", tol=1e-7)


@exercise("numeric_gradient", weight=2)
@few
@given(n=distinct("A", "B", least=2, most=4), seed=seeds)
def test_f_may_change_its_argument(learner, n, seed):
    """f may overwrite the tensor it is called with: each call gets one of its own, and x itself never changes."""
    x, factors = tensor(seed, n.A, n.B, dtype=double), tensor(seed + 1, n.A, n.B, dtype=double)
    plain, spoiled = learner.numeric_gradient(learner.bring(cubes)(factors), x), learner.numeric_gradient(learner.bring(spoiling)(factors), x)
    close(plain, 3 * factors * x**2, "the measured gradient", tol=1e-7)
    close(spoiled, 2 * factors * x, "the measured gradient of a function that overwrites its argument", tol=1e-7)


@exercise("numeric_gradient", weight=3)
@few
@given(n=distinct("A", "B", least=2, most=4), seed=seeds)
def test_f_is_measured_in_float64(learner, n, seed):
    """f gets float64 tensors in the shape of x, and the result is float64, also if x is float32: in float32 rounding would hide the slope."""
    x, notes = tensor(seed, n.A, n.B), learner.bring(Notes)()
    factors = tensor(seed + 1, n.A, n.B, dtype=double)
    got, watched, single = learner.numeric_gradient(learner.bring(cubes)(factors), x), learner.numeric_gradient(notes, x), learner.numeric_gradient(notes, x[0, 0])
    seen = notes.kinds()
    close(got, 3 * factors * x.double() ** 2, "the measured gradient for a float32 x", tol=1e-7)
    close(watched, 2 * x.double(), "the measured gradient of the sum of squares", tol=1e-7)
    close(single, 2 * x[0, 0].double(), "the measured gradient of a square", tol=1e-7)
    same(seen, [["float64", []], ["float64", [n.A, n.B]]], "the list of dtypes and shapes that f was called with")


@exercise("numeric_gradient")
@few
@given(n=distinct("A", "B", least=2, most=4), seed=seeds)
def test_nothing_is_recorded(learner, n, seed):
    """It measures and uses no autograd: the result is the same inside torch.inference_mode."""
    x, factors = tensor(seed, n.A, n.B, dtype=double), tensor(seed + 1, n.A, n.B, dtype=double)
    f = learner.bring(waves)(factors)
    got, plain = learner.bring(on_inference_tensors)(learner.numeric_gradient, f, x), learner.numeric_gradient(f, x)
    expected = factors * torch.cos((factors * x).sum()) + x.roll(1) + x.roll(-1)
    close(plain, expected, "the measured gradient", tol=1e-7)
    close(got, expected, "the measured gradient in inference mode", tol=1e-7)
