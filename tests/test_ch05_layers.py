"""Chapter 5, first part: gelu and dropout. The norms are in test_ch05_layers_norms.py, the feed-forwards in test_ch05_layers_feedforward.py."""

import torch
from calls import GRADIENT_FREE_MODES, call_without_gradient
from devices_and_dtypes import check_device_of_result
from grader.execution.proxy import gradients
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, shaped
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_layouts import of_view
from pytest_check import check
from strategies import distinct, seeds, tensor

few = settings(max_examples=3)  # for tests that a mistake breaks at every example: more examples would only take time
forms = {False: "the exact form", True: "the tanh form"}


# ---- gelu


def in_bfloat16(f, x, expected, approximate):
    """What is wrong with f(x), without its numbers, because in half precision each way of computing rounds differently."""
    result = f(x, approximate)
    if not isinstance(result, torch.Tensor) or result.shape != x.shape:
        return f"of type {type(result).__name__}, or of another shape"
    if result.dtype != x.dtype:
        return f"{str(result.dtype).removeprefix('torch.')}; it should be bfloat16"
    far = (result.double() - expected.double()).abs().max() > 5e-2 * expected.double().abs().max()
    return "off by more than rounding" if far else "right"


@exercise("gelu", weight=3)
@given(n=distinct("B", "T", "D"), seed=seeds)
def test_gelu_is_x_times_the_normal_probability_below_x(learner, reference, n, seed):
    """gelu(x) is x times the probability that a standard normal number is below x, element by element, also for negative numbers."""
    x = tensor(seed, n.B, n.T, n.D, scale=2.0)
    got = [learner.gelu(x), learner.gelu(x, False), learner.gelu(x, approximate=False)]
    for result in got:
        close(result, reference.gelu(x), forms[False])


@exercise("gelu", weight=3)
@given(n=distinct("B", "T", "D"), seed=seeds)
def test_the_tanh_form_is_the_one_of_gpt2(learner, reference, n, seed):
    """With approximate=True it is x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))."""
    x = tensor(seed, n.B, n.T, n.D, scale=2.0)
    got = [learner.gelu(x, approximate=True), learner.gelu(x, True)]
    for result in got:
        close(result, reference.gelu(x, approximate=True), forms[True])


@exercise("gelu")
@few
@given(shift=st.integers(0, 4))
def test_gelu_of_zero_and_plus_and_minus_one(learner, shift):
    """gelu(1) = 0.8413 and gelu(-1) = -0.1587: of the normal numbers 84.13 % are below 1, and 15.87 % below -1; gelu(0) = 0."""
    x = torch.tensor([-1.0, 0.0, 1.0, 3.0, -3.0]).roll(shift)
    exact = torch.tensor([-0.15865525, 0.0, 0.84134475, 2.99595031, -0.00404969]).roll(shift)
    tanh = torch.tensor([-0.15880801, 0.0, 0.84119199, 2.99636261, -0.00363739]).roll(shift)
    got = learner.gelu(x), learner.gelu(x, approximate=True)
    close(got[0], exact, forms[False])
    close(got[1], tanh, forms[True])


@exercise("gelu")
@few
@given(n=distinct("T", "D"), seed=seeds)
def test_gelu_of_x_minus_gelu_of_minus_x_is_x(learner, n, seed):
    """gelu(x) - gelu(-x) is x: the probabilities of lying below x and below -x sum to 1."""
    x = tensor(seed, n.T, n.D, scale=2.0)
    for approximate, form in forms.items():
        got = learner.gelu(x, approximate=approximate), learner.gelu(-x, approximate=approximate)
        above, below = (shaped(result, (n.T, n.D), form) for result in got)
        close(above - below, x, f"gelu(x) - gelu(-x) in {form}")


@exercise("gelu")
@few
@given(seed=seeds)
def test_large_numbers_stay_and_large_negative_numbers_become_zero(learner, reference, seed):
    """Numbers far above zero do not change, numbers far below it give 0, and nothing overflows."""
    x = torch.cat([tensor(seed, 5).abs() + size for size in (8.0, 60.0, 1e3, 1e5)])
    x = torch.cat([x, -x])
    got = learner.gelu(x), learner.gelu(x, approximate=True)
    for result, form in zip(got, forms.values()):
        close(result, torch.relu(x), f"{form}, far from zero,", tol=1e-6)


@exercise("gelu", weight=2)
@few
@given(n=distinct("T", "D"), seed=seeds)
def test_gradient_of_gelu(learner, reference, n, seed):
    """The gradient is that of the formula, 1/2 at zero, and there is no corner anywhere."""
    x = tensor(seed, n.T, n.D, scale=1.5)
    x[0, 0], x[-1, -1] = 0.0, 20.0
    got = [gradients(learner.gelu, x, approximate=approximate) for approximate in forms]
    for found, (approximate, form) in zip(got, forms.items()):
        expected = gradients(reference.gelu, x, approximate=approximate)
        with check:
            close(found.output, expected.output, form)
        with check:
            close(found.inputs[0], expected.inputs[0], f"the gradient of x in {form}", tol=5e-5)


@exercise("gelu")
@few
@given(n=distinct("B", "T", "D"), seed=seeds)
def test_gelu_of_any_shape_dtype_and_device(learner, reference, n, seed):
    """One number, a row or a batch: shape, dtype and device are those of x; in float64 the result is exact to many digits."""
    x = tensor(seed, n.B, n.T, n.D, scale=2.0, dtype=torch.float64)
    inputs, half, ask = (x, x[0, 0], x[0, 0, 0]), x.bfloat16(), learner.bring(in_bfloat16)
    for approximate, form in forms.items():
        got = [learner.gelu(value, approximate=approximate) for value in inputs]
        view = learner.bring(of_view)(learner.gelu, x, approximate)
        rough = ask(learner.gelu, half, reference.gelu(half, approximate), approximate)
        for result, value in zip(got, inputs):
            close(result, reference.gelu(value, approximate=approximate), f"{form} in float64", tol=1e-7)
        close(view, reference.gelu(x, approximate), f"{form} of a view, such as a transposed tensor,", tol=1e-7)
        holds(rough == "right", f"{form} of numbers in bfloat16 is {rough}")
    check_device_of_result(learner, x, learner.gelu, x)


# ---- dropout
#
# Every implementation draws random numbers in its own way, so results in training are never compared number by number. The helpers below examine it where it
# is made and answer one question each, in words that do not depend on the draw.


def seen_in_training(question, f, x, *args):
    """What f(x, ...) does to the numbers of x, in six calls."""
    given = [x.clone() for _ in range(6)]
    results = [f(value, *args) for value in given]
    if not all(torch.equal(value, x) for value in given):
        return {"changed": True}
    for result in results:
        if not isinstance(result, torch.Tensor) or result.shape != x.shape or result.dtype != x.dtype:
            return {"instead": result}
    dropped = torch.stack([result == 0 for result in results])
    if question == "which share is dropped?":
        return round(float(dropped.double().mean()), 1)
    if question == "by which factor is the rest multiplied?":
        factors = (torch.stack(results) / x)[~dropped].double()
        digits, tol = (2, 1e-3) if x.dtype.itemsize > 2 else (1, 2e-2)
        alike = len(factors) > 0 and float(factors.max() - factors.min()) < tol * float(factors.abs().max())
        return round(float(factors.median()), digits) if alike else None
    if question == "are the same dropped each time?":
        return all(torch.equal(dropped[0], other) for other in dropped[1:])
    if question == "are as many dropped each time?":
        return len(set(dropped.flatten(1).sum(1).tolist())) == 1
    if question == "are small numbers dropped more often?":
        sizes = x.abs().expand(dropped.shape)
        return bool(sizes[dropped].mean() < 0.9 * sizes[~dropped].mean())
    together = []
    for name, rows in {"positions": dropped[0, 0], "texts": dropped[0].flatten(1), "features": dropped[0, 0].T}.items():
        mixed = [tuple(row) for row in rows.tolist() if len(set(row)) == 2]
        together += [name] if len(set(mixed)) < len(mixed) else []
    return together if len(dropped[0].unique()) == 2 else ["all"]


def gradient_in_training(f, x, c, *args):
    """How the gradient of x is related to the numbers that f kept, given the gradient c of its result."""
    with torch.enable_grad():
        x = x.detach().clone().requires_grad_(True)
        result = f(x * 1, *args)
        if not isinstance(result, torch.Tensor) or result.shape != x.shape:
            return {"instead": result}
        gradient = torch.autograd.grad((result * c).sum(), x, allow_unused=True)[0] if result.requires_grad else None
    if gradient is None:
        return "none"
    if torch.allclose(gradient, c * result.detach() / x.detach(), atol=1e-4):
        return "as in the result"
    return "for all" if bool((gradient != 0).all()) else "another"


def answer(learner, question, x, *args):
    """What the learner's dropout does in training, after a check that its result can be examined."""
    found = learner.bring(seen_in_training)(question, learner.dropout, x, *args)
    if isinstance(found, dict):
        holds("changed" not in found, "dropout changed x, the caller's tensor; make a new tensor instead")
        shaped(found["instead"], tuple(x.shape), "what dropout returns", x.dtype)
    return found


def share(learner, x, *args):
    return answer(learner, "which share is dropped?", x, *args)


def clear_of_zero(seed, n):
    """Numbers of both signs, none of them near zero."""
    x = tensor(seed, n.B, n.T, n.D)
    return x + x.sign() * 0.5


def keeps_digits(f, x):
    """Whether dropout with p = 0.5 doubles what it keeps, exactly, of a tensor, a view of the same numbers, a row and a single number."""
    view = x.transpose(0, 1).contiguous().transpose(0, 1)
    pairs = [(value, f(value, 0.5)) for value in (x, view, x[0, 0], x[0, 0, 0])]
    return all(bool(((result == 0) | ((result - 2 * value).abs() < 1e-12 * value.abs())).all()) for value, result in pairs)


RATES = (0.3, 0.8)
many = distinct(B=(10, 12), T=(13, 15), D=(16, 18))


@exercise("dropout", weight=3)
@few
@given(n=many, seed=seeds)
def test_p_is_the_probability_of_being_dropped(learner, n, seed):
    """In training each number is set to 0 with probability p: of many numbers, a share of about p."""
    x = clear_of_zero(seed, n)
    got = [share(learner, x, p) for p in RATES]
    for p, found in zip(RATES, got):
        holds(found == p, f"with p = {p} about {p:.0%} of the numbers should be set to 0; it was {found:.0%}")


@exercise("dropout", weight=3)
@few
@given(n=many, seed=seeds)
def test_kept_numbers_are_divided_by_one_minus_p(learner, n, seed):
    """Remaining numbers are divided by 1 - p, so that the mean of every number stays the same."""
    x = clear_of_zero(seed, n)
    got = [answer(learner, "by which factor is the rest multiplied?", x, p, True) for p in RATES]
    for p, factor in zip(RATES, got):
        holds(factor is not None, f"with p = {p} the remaining numbers should all be multiplied by the same factor")
        holds(factor == round(1 / (1 - p), 2), f"with p = {p} the remaining numbers should be multiplied by 1 / (1 - p) = {1 / (1 - p):.2f}; it was by {factor:.2f}")


@exercise("dropout", weight=2)
@few
@given(n=distinct(B=(3, 5), T=(40, 44), D=(45, 50)), seed=seeds)
def test_each_number_is_dropped_independently(learner, n, seed):
    """Features, positions and texts are dropped independently, small numbers as often as large ones, and the number of dropped entries is random too."""
    x = clear_of_zero(seed, n)
    together, counted, sorted_out = (
        answer(learner, question, x, 0.5) for question in ("which are dropped together?", "are as many dropped each time?", "are small numbers dropped more often?")
    )
    each = "; each number should have its own random number"
    holds("all" not in together, f"either everything is dropped or nothing{each}")
    holds("positions" not in together, f"different positions drop the same features{each}")
    holds("texts" not in together, f"the texts of the batch drop the same numbers{each}")
    holds("features" not in together, f"different features are dropped at the same positions{each}")
    holds(not sorted_out, f"only small numbers are dropped{each}, independent of its size")
    holds(not counted, f"in six calls exactly as many numbers were dropped each time{each}, independent of the others")


@exercise("dropout", weight=2)
@few
@given(n=many, seed=seeds)
def test_each_call_draws_new_numbers(learner, n, seed):
    """Two calls do not drop the same numbers, and no call resets the random generator."""
    x = clear_of_zero(seed, n)
    alike = answer(learner, "are the same dropped each time?", x, 0.5)
    holds(not alike, "six calls dropped the same numbers; each call should draw new numbers")


@exercise("dropout", weight=2)
@few
@given(n=many, seed=seeds)
def test_without_training_nothing_changes(learner, n, seed):
    """With training=False every number is returned unchanged; training is the default."""
    x = clear_of_zero(seed, n)
    got = [learner.dropout(x, 0.6, False), learner.dropout(x, p=0.6, training=False), learner.dropout(x, 1.0, training=False)]
    found = share(learner, x, 0.6)
    for result in got:
        close(result, x, "the result without training")
    holds(found == 0.6, f"training is the default, and with p = 0.6 about 60% should be dropped in that case; it was {found:.0%}")


@exercise("dropout")
@few
@given(n=many, seed=seeds)
def test_the_training_flag_decides_and_not_the_gradient_mode(learner, n, seed):
    """Under torch.no_grad and torch.inference_mode numbers are dropped in training, and only then."""
    x = clear_of_zero(seed, n)
    look = learner.bring(seen_in_training)
    found = call_without_gradient(learner, look, "which share is dropped?", learner.dropout, x, 0.6)
    quiet = call_without_gradient(learner, learner.dropout, x, 0.6, False)
    for mode in GRADIENT_FREE_MODES:
        close(quiet[mode], x, f"the result without training under torch.{mode}")
        holds(found[mode] == 0.6, f"in training under torch.{mode} about 60% should be dropped with p = 0.6; it was {found[mode]}")


@exercise("dropout", weight=2)
@few
@given(n=distinct("B", "T", "D"), seed=seeds)
def test_p_of_zero_and_p_of_one(learner, n, seed):
    """With p = 0 no number changes; with p = 1 every number is dropped, and the result is zeros, not NaN."""
    x = clear_of_zero(seed, n)
    got = learner.dropout(x, 0.0), learner.dropout(x, 1.0)
    close(got[0], x, "the result with p = 0")
    close(got[1], torch.zeros_like(x), "the result with p = 1")


@exercise("dropout", weight=2)
@few
@given(n=many, seed=seeds)
def test_dropped_numbers_get_no_gradient(learner, n, seed):
    """A dropped number gets no gradient, and a remaining one gets it divided by 1 - p; without training the gradient is unchanged."""
    x, cotangent = clear_of_zero(seed, n), clear_of_zero(seed + 1, n)
    gradient, untouched = (learner.bring(gradient_in_training)(learner.dropout, x, cotangent, 0.4, training) for training in (True, False))
    found = share(learner, x, 0.4)
    holds(found == 0.4, f"with p = 0.4 about 40% should be dropped; it was {found:.0%}")
    holds(gradient != "none", "no gradient reaches x through dropout")
    holds(gradient != "for all", "dropped numbers get a gradient as if they had not been dropped")
    holds(gradient == "as in the result", "the gradient should be dropped and scaled by the same factors as the numbers")
    holds(untouched != "none", "without training no gradient reaches x, but it should pass unchanged")
    holds(untouched == "as in the result", "without training the gradient should pass unchanged")


@exercise("dropout")
@few
@given(n=many, seed=seeds)
def test_dropout_keeps_dtype_and_device(learner, n, seed):
    """float64 in, float64 out, with all its digits, for any shape; bfloat16 in, bfloat16 out; and the draws are made on the device of x."""
    x = clear_of_zero(seed, n)
    got = [share(learner, x.to(dtype), 0.3) for dtype in (torch.float64, torch.bfloat16)]
    exact = learner.bring(keeps_digits)(learner.dropout, tensor(seed, n.B, n.T, n.D, dtype=torch.float64))
    for found, dtype in zip(got, ("float64", "bfloat16")):
        holds(found == 0.3, f"in {dtype} about 30% should be dropped with p = 0.3; it was {found:.0%}")
    holds(exact, "in float64, with p = 0.5, each remaining number should be doubled in all its digits, also where x is a view or has another number of axes")
    check_device_of_result(learner, x, learner.dropout, x, 0.3)
