"""Chapter 13, continued: attention_backward."""

from types import SimpleNamespace

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
    on_inference_tensors,
    on_views,
    result_number,
    rounded,
)
from devices_and_dtypes import check_device_of_result
from grader.runner.marks import exercise
from hypothesis import example, given, settings
from hypothesis import strategies as st
from masks import random_mask
from strategies import at, distinct, seeds, tensor

few = settings(max_examples=3)  # for tests that a mistake breaks at every example: more examples would only take time
double = torch.float64


def names(q, k, v):
    return {"grad_q": q, "grad_k": k, "grad_v": v}


def inputs(seed, n, lead=2, dtype=double):
    """q, k, v and grad_out with this many leading axes; the scores are sharp enough to matter."""
    front = leading(n, "B", "H", lead=lead)
    shapes = ((n.Tq, n.d, 1.3), (n.Tk, n.d, 1.3), (n.Tk, n.d_v, 1.0), (n.Tq, n.d_v, 1.0))
    return [tensor(seed + i, *front, rows, width, scale=scale, dtype=dtype) for i, (rows, width, scale) in enumerate(shapes)]


shapes = distinct("B", "H", "Tq", "Tk", "d", "d_v", B=(1, 3), H=(1, 4), Tq=(3, 9))


@exercise("attention_backward", weight=5)
@example(n=at(B=2, H=1, Tq=3, Tk=4, d=5, d_v=6), lead=0, seed=0)
@example(n=at(A=2, B=1, H=3, Tq=4, Tk=5, d=6, d_v=7), lead=3, seed=0)
@given(n=shapes, lead=st.integers(0, 2), seed=seeds)
def test_attention_agrees_with_autograd(learner, reference, n, lead, seed):
    """grad_q, grad_k and grad_v are autograd's gradients of chapter 3's attention, for any number of leading axes."""
    q, k, v, grad_out = inputs(seed, n, lead)
    got = learner.attention_backward(q, k, v, grad_out)
    compare_gradients(got, names(*by_autograd(reference.scaled_dot_product_attention, grad_out, q, k, v)))


@exercise("attention_backward", weight=2)
@few
@example(n=at(H=3, T=3, d=4), seed=0)
@given(n=distinct("H", "T", "d", H=(1, 3), T=(3, 6)), seed=seeds)
def test_attention_with_as_many_queries_as_keys(learner, reference, n, seed):
    """With Tq = Tk and d_v = d, where all three gradients have the same shape, none takes the place of another, and a mask holds there too. Large scores give no NaN."""
    q, k, v, grad_out = (tensor(seed + i, n.H, n.T, n.d, dtype=double) for i in range(4))
    mask, f = random_mask(seed, n.T, n.T), learner.attention_backward
    got, masked, sharp = f(q, k, v, grad_out), f(q, k, v, grad_out, mask), f(60 * q, 60 * k, v, grad_out)
    attention = reference.scaled_dot_product_attention
    compare_gradients(got, names(*by_autograd(attention, grad_out, q, k, v)))
    compare_gradients(masked, names(*by_autograd(attention, grad_out, q, k, v, mask)), " with a mask")
    compare_gradients(sharp, names(*by_autograd(attention, grad_out, 60 * q, 60 * k, v)), " for scores in the thousands")


@exercise("attention_backward", weight=4)
@given(n=shapes, shape=st.sampled_from(["Tq Tk", "B 1 1 Tk", "B 1 Tq Tk", "B H Tq Tk"]), seed=seeds)
def test_masked_attention_agrees_with_autograd(learner, reference, n, shape, seed):
    """With a mask, in any shape that broadcasts, the gradients are those of masked attention."""
    q, k, v, grad_out = inputs(seed, n)
    mask = random_mask(seed, *[1 if axis == "1" else getattr(n, axis) for axis in shape.split()])
    got, named = learner.attention_backward(q, k, v, grad_out, mask), learner.attention_backward(q, k, v, grad_out, mask=mask)
    expected = names(*by_autograd(reference.scaled_dot_product_attention, grad_out, q, k, v, mask))
    compare_gradients(got, expected, " with a mask")
    compare_gradients(named, expected, " with a mask")


@exercise("attention_backward", weight=20)
@few
@given(n=distinct("Tq", "Tk", "d", "d_v", least=2, most=4), seed=seeds)
def test_attention_agrees_with_numeric_gradient(learner, n, seed):
    """The three gradients are what numeric_gradient measures of chapter 3's attention, with a mask, but computed by a rule: without two forward passes for each entry."""
    n.B, n.H = 1, 1
    q, k, v, grad_out = inputs(seed, n, lead=0)
    mask = random_mask(seed, n.Tq, n.Tk)
    got = learner.attention_backward(q, k, v, grad_out, mask)
    measured = by_measuring(learner, learner.scaled_dot_product_attention, grad_out, q, k, v, mask)
    larger = inputs(seed, SimpleNamespace(Tq=4, Tk=5, d=6, d_v=3), lead=0)
    wasteful = is_measured(learner, learner.attention_backward, *larger)
    compare_gradients(got, names(*measured), " against the measured gradient", tol=1e-6)
    computed(wasteful)


@exercise("attention_backward")
def test_the_worked_numbers_of_attention(learner):
    """Weights 3/4 and 1/4 with d = 2, values [8, 0] and [0, 4] and grad_out [1, 0]: the scores get 1.06066 and -1.06066, grad_v is [0.75, 0], [0.25, 0]."""
    step = torch.tensor(3.0, dtype=double).log() * 2**0.5  # the difference of the two scores before the division
    q, k = torch.tensor([[1.0, 0.0]], dtype=double), torch.tensor([[0.0, 2.0], [0.0, 1.0]], dtype=double)
    k[0, 0] = step
    got = learner.attention_backward(q, k, torch.tensor([[8.0, 0.0], [0.0, 4.0]], dtype=double), torch.tensor([[1.0, 0.0]], dtype=double))
    score = 1.5 / 2**0.5
    grad_q = torch.tensor([[0.0, score]], dtype=double) + torch.stack([score * step, 0 * step])
    grad_k = torch.tensor([[score, 0.0], [-score, 0.0]], dtype=double)
    compare_gradients(got, names(grad_q, grad_k, torch.tensor([[0.75, 0.0], [0.25, 0.0]], dtype=double)))


@exercise("attention_backward", weight=2)
@few
@given(n=shapes, seed=seeds)
def test_a_masked_key_takes_part_in_no_gradient(learner, reference, n, seed):
    """A key that no query may attend to gets gradients of 0, and other numbers in its k and v change no gradient at all."""
    q, k, v, grad_out = inputs(seed, n)
    mask, hidden = torch.ones(n.Tq, n.Tk, dtype=torch.bool), seed % n.Tk
    mask[:, hidden] = False
    before = learner.attention_backward(q, k, v, grad_out, mask)
    k[..., hidden, :], v[..., hidden, :] = 50.0, -70.0
    after = learner.attention_backward(q, k, v, grad_out, mask)
    expected = reference.attention_backward(q, k, v, grad_out, mask)
    compare_gradients(before, names(*expected), " with a masked key")
    compare_gradients(after, names(*expected), " after the masked key and its value have changed")


@exercise("attention_backward", weight=2)
@few
@given(n=shapes, seed=seeds)
def test_a_query_that_may_attend_to_nothing_sends_nothing_back(learner, reference, n, seed):
    """A query whose keys are all masked gets a grad_q of zeros and adds nothing to grad_k and grad_v; nothing is NaN."""
    q, k, v, grad_out = inputs(seed, n)
    mask, blind = random_mask(seed, n.Tq, n.Tk), seed % n.Tq
    mask[blind] = False
    before = learner.attention_backward(q, k, v, grad_out, mask)
    grad_out[..., blind, :] = 9.0
    after = learner.attention_backward(q, k, v, grad_out, mask)
    expected = reference.attention_backward(q, k, v, grad_out, mask)
    compare_gradients(before, names(*expected), " with a query that may attend to nothing")
    compare_gradients(after, names(*expected), " after grad_out of that query has changed")


@exercise("attention_backward")
@few
@given(n=shapes, seed=seeds)
def test_attention_gradients_are_linear_in_grad_out(learner, reference, n, seed):
    """Twice one grad_out minus another gives twice the gradients of the one minus those of the other."""
    q, k, v, one = inputs(seed, n)
    other = tensor(seed + 9, *one.shape, dtype=double)
    got, first, second = (learner.attention_backward(q, k, v, g) for g in (2 * one - other, one, other))
    compare_gradients(first, names(*reference.attention_backward(q, k, v, one)))
    compare_gradients(got, names(*combined(first, second, 2.0, -1.0)), " of 2 * one - other")


@exercise("attention_backward", weight=2)
@few
@given(n=shapes, seed=seeds)
def test_attention_dtype_device_and_views(learner, reference, n, seed):
    """The gradients have the dtype and device of the input, the arguments may be views, and autograd is not used."""
    q, k, v, grad_out = inputs(seed, n, dtype=torch.float32)
    mask, f = random_mask(seed, n.Tq, n.Tk), learner.attention_backward
    expected = reference.attention_backward(q, k, v, grad_out, mask)
    got, still = f(q, k, v, grad_out, mask), learner.bring(on_inference_tensors)(f, q, k, v, grad_out, mask)
    turned, half = (learner.bring(way)(f, q, k, v, grad_out, mask) for way in (on_views, in_bfloat16))
    compare_gradients(got, names(*expected), " in float32", tol=1e-3)
    compare_gradients(still, names(*expected), " in inference mode", tol=1e-3)
    compare_gradients(turned, names(*expected), " for tensors that are not contiguous", tol=1e-3)
    compare_gradients(half, names(*rounded(expected)), " in bfloat16", HALF_PRECISION)
    for place in range(3):
        check_device_of_result(learner, expected[place], learner.bring(result_number)(f, place), q, k, v, grad_out, mask)
