"""Chapter 13, continued: layer_norm_backward and embedding_backward."""

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
    look_up,
    normalise,
    on_inference_tensors,
    on_views,
    result_number,
    rounded,
)
from devices_and_dtypes import check_device_of_result
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, shaped
from hypothesis import example, given, settings
from hypothesis import strategies as st
from strategies import at, distinct, seeds, tensor, token_ids

few = settings(max_examples=3)  # for tests that a mistake breaks at every example: more examples would only take time
double = torch.float64


# ---- layer_norm_backward


def names(x, weight, bias):
    return {"grad_x": x, "grad_weight": weight, "grad_bias": bias}


def norm_inputs(seed, n, lead=2, dtype=double):
    """x, weight, bias and grad_out with this many leading axes; x is far from mean 0 and deviation 1."""
    front = leading(n, "B", "T", lead=lead)
    x = tensor(seed, *front, n.D, scale=2.0, dtype=dtype) + 1.5
    return x, tensor(seed + 1, n.D, dtype=dtype), tensor(seed + 2, n.D, dtype=dtype), tensor(seed + 3, *front, n.D, dtype=dtype)


widths = distinct("B", "T", "D", D=(3, 8))


@exercise("layer_norm_backward", weight=4)
@example(n=at(B=2, T=3, D=4), lead=0, seed=0)
@example(n=at(B=2, T=3, D=4), lead=2, seed=0)
@example(n=at(B=1, T=3, D=4), lead=2, seed=0)
@example(n=at(A=1, B=2, T=3, D=4), lead=3, seed=0)
@example(n=at(B=2, T=3, D=1), lead=1, seed=0)
@given(n=widths, lead=st.integers(0, 2), seed=seeds)
def test_layer_norm_agrees_with_autograd(learner, reference, n, lead, seed):
    """grad_x, grad_weight and grad_bias are autograd's gradients of chapter 5's LayerNorm, for any number of leading axes."""
    x, weight, bias, grad_out = norm_inputs(seed, n, lead)
    got = learner.layer_norm_backward(x, weight, grad_out)
    compare_gradients(got, names(*by_autograd(reference.bring(normalise)(reference.LayerNorm, 1e-5), grad_out, x, weight, bias)))


@exercise("layer_norm_backward", weight=2)
@given(n=widths, eps=st.sampled_from([1.0, 0.3]), seed=seeds)
def test_eps_is_part_of_the_deviation(learner, reference, n, eps, seed):
    """With a large eps the gradients are those of dividing by sqrt(variance + eps)."""
    x, weight, bias, grad_out = norm_inputs(seed, n)
    got, named = learner.layer_norm_backward(x, weight, grad_out, eps), learner.layer_norm_backward(x, weight, grad_out, eps=eps)
    expected = names(*by_autograd(reference.bring(normalise)(reference.LayerNorm, eps), grad_out, x, weight, bias))
    compare_gradients(got, expected, f" with eps = {eps}")
    compare_gradients(named, expected, f" with eps = {eps}")


@exercise("layer_norm_backward", weight=12)
@few
@given(n=distinct("T", "D", least=2, most=4), seed=seeds)
def test_layer_norm_agrees_with_numeric_gradient(learner, n, seed):
    """The three gradients are what numeric_gradient measures of chapter 5's LayerNorm, but computed by a rule: without two forward passes for each entry."""
    x, weight, bias, grad_out = (tensor(seed + i, *shape, dtype=double) for i, shape in enumerate([(n.T, n.D), (n.D,), (n.D,), (n.T, n.D)]))
    got = learner.layer_norm_backward(x, weight, grad_out, 0.1)
    measured = by_measuring(learner, learner.bring(normalise)(learner.LayerNorm, 0.1), grad_out, x, weight, bias)
    wasteful = is_measured(learner, learner.layer_norm_backward, *(tensor(seed + i, *shape, dtype=double) for i, shape in enumerate([(4, 8), (8,), (4, 8)])))
    compare_gradients(got, names(*measured), " against the measured gradient", tol=1e-6)
    computed(wasteful)


@exercise("layer_norm_backward", weight=2)
@few
@given(n=widths, seed=seeds)
def test_the_gradient_of_each_vector_sums_to_zero(learner, reference, n, seed):
    """A vector's shift changes nothing, so the entries of its grad_x sum to 0; nor does its scale, so with eps = 0 its product with x is 0 too."""
    x, weight, _, grad_out = norm_inputs(seed, n)
    got, expected = learner.layer_norm_backward(x, weight, grad_out, eps=0.0), reference.layer_norm_backward(x, weight, grad_out, eps=0.0)
    holds(isinstance(got, tuple | list) and len(got) == 3, "the result should be a tuple of 3 tensors: grad_x, grad_weight, grad_bias")
    grad_x, nothing = shaped(got[0], tuple(x.shape), "grad_x", double), torch.zeros(n.B, n.T, dtype=double)
    close(grad_x.sum(-1), nothing, "the sum of each vector of grad_x")
    close((grad_x * x).sum(-1), nothing, "the product of each vector of grad_x with x")
    compare_gradients(got, names(*expected))


@exercise("layer_norm_backward")
def test_the_worked_numbers_of_layer_norm(learner):
    """For x = [0, 3, 6], weights of 1, eps = 0 and grad_out = [1, 0, 0]: grad_x is 0.068041, -0.136083, 0.068041, and grad_weight -1.224745, 0, 0."""
    x, one, first = torch.tensor([0.0, 3.0, 6.0], dtype=double), torch.ones(3, dtype=double), torch.tensor([1.0, 0.0, 0.0], dtype=double)
    got = learner.layer_norm_backward(x, one, first, 0.0)
    expected = torch.tensor([0.068041, -0.136083, 0.068041], dtype=double), torch.tensor([-1.224745, 0.0, 0.0], dtype=double), first
    compare_gradients(got, names(*expected), tol=1e-5)


@exercise("layer_norm_backward", weight=2)
@few
@given(n=widths, seed=seeds)
def test_a_constant_vector_gets_finite_gradients(learner, reference, n, seed):
    """Where all features of a vector are equal the deviation is sqrt(eps), so the gradients are large but finite. They are finite for a feature with weight 0 too."""
    x, weight, _, grad_out = norm_inputs(seed, n)
    x[:, 0], weight[0] = 2.0, 0.0
    got = learner.layer_norm_backward(x, weight, grad_out)
    compare_gradients(got, names(*reference.layer_norm_backward(x, weight, grad_out)))


@exercise("layer_norm_backward")
@few
@given(n=widths, seed=seeds)
def test_layer_norm_gradients_are_linear_in_grad_out(learner, reference, n, seed):
    """Twice one grad_out minus another gives twice the gradients of the one minus those of the other."""
    x, weight, _, one = norm_inputs(seed, n)
    other = tensor(seed + 9, n.B, n.T, n.D, dtype=double)
    got, first, second = (learner.layer_norm_backward(x, weight, g) for g in (2 * one - other, one, other))
    compare_gradients(first, names(*reference.layer_norm_backward(x, weight, one)))
    compare_gradients(got, names(*combined(first, second, 2.0, -1.0)), " of 2 * one - other")


@exercise("layer_norm_backward", weight=2)
@few
@given(n=widths, seed=seeds)
def test_layer_norm_dtype_device_and_views(learner, reference, n, seed):
    """The gradients have the dtype and device of the input, the arguments may be views, and autograd is not used."""
    x, weight, _, grad_out = norm_inputs(seed, n, dtype=torch.float32)
    expected, f = reference.layer_norm_backward(x, weight, grad_out), learner.layer_norm_backward
    got, turned = f(x, weight, grad_out), learner.bring(on_views)(f, x, weight, grad_out)
    still = learner.bring(on_inference_tensors)(f, x, weight, grad_out)
    half = learner.bring(in_bfloat16)(f, x, weight, grad_out)
    compare_gradients(got, names(*expected), " in float32", tol=1e-3)
    compare_gradients(still, names(*expected), " in inference mode", tol=1e-3)
    compare_gradients(turned, names(*expected), " for tensors that are not contiguous", tol=1e-3)
    compare_gradients(half, names(*rounded(expected)), " in bfloat16", HALF_PRECISION)
    for place in range(3):
        check_device_of_result(learner, expected[place], learner.bring(result_number)(f, place), x, weight, grad_out)


# ---- embedding_backward


@exercise("embedding_backward", weight=4)
@example(n=at(B=4, T=7, D=2, V=9), lead=2, seed=0)
@example(n=at(B=4, T=7, D=2, V=9), lead=0, seed=0)
@example(n=at(B=1, T=7, D=2, V=9), lead=2, seed=0)
@example(n=at(A=1, B=4, T=7, D=2, V=9), lead=3, seed=0)
@given(n=distinct("B", "T", "D", V=(9, 11)), lead=st.integers(0, 2), seed=seeds)
def test_embedding_agrees_with_autograd(learner, reference, n, lead, seed):
    """The gradient of the table is autograd's gradient of table[ids], for ids of any shape: () or (T,) or (B, T)."""
    front = leading(n, "B", "T", lead=lead)
    ids, grad_out = token_ids(seed, *front, vocab=n.V), tensor(seed, *front, n.D, dtype=double)
    got = learner.embedding_backward(ids, grad_out, n.V)
    close(got, by_autograd(reference.bring(look_up), grad_out, tensor(seed, n.V, n.D, dtype=double), ids)[0], "the gradient of the table")


@exercise("embedding_backward", weight=3)
@given(n=distinct("B", "T", "D", T=(6, 9)), seed=seeds)
def test_repeated_ids_add_up(learner, n, seed):
    """An id that occurs several times gets the sum of the gradients of all its places; rows that were not looked up are zeros."""
    ids, grad_out = torch.where(torch.arange(n.T) % 3 == 0, 4, token_ids(seed, n.B, n.T, vocab=4)), tensor(seed, n.B, n.T, n.D, dtype=double)
    got = learner.embedding_backward(ids, grad_out, vocab_size=7)
    rows = [(grad_out * (ids == row)[..., None]).sum((0, 1)) for row in range(7)]
    close(got, torch.stack(rows), "the gradient of the table")


@exercise("embedding_backward", weight=15)
@few
@given(n=distinct("T", "D", least=2, most=4), seed=seeds)
def test_embedding_agrees_with_numeric_gradient(learner, n, seed):
    """The gradient of the table is what numeric_gradient measures, but computed by a rule: without two forward passes for each entry."""
    ids, grad_out, table = token_ids(seed, n.T, vocab=4), tensor(seed, n.T, n.D, dtype=double), tensor(seed + 1, 4, n.D, dtype=double)
    got = learner.embedding_backward(ids, grad_out, 4)
    measured = by_measuring(learner, learner.bring(look_up), grad_out, table, ids)[0]
    wasteful = is_measured(learner, learner.embedding_backward, token_ids(seed, 12, vocab=6), tensor(seed, 12, 5, dtype=double), 6)
    close(got, measured, "the gradient of the table, against the measured one,", tol=1e-6)
    computed(wasteful)


@exercise("embedding_backward")
def test_the_worked_numbers_of_an_embedding(learner):
    """The ids 2, 0, 2 with the rows [1, 1], [5, 0], [10, 20] give row 0 [5, 0] and row 2 [11, 21]; row 1 is zeros."""
    got = learner.embedding_backward(torch.tensor([2, 0, 2]), torch.tensor([[1.0, 1.0], [5.0, 0.0], [10.0, 20.0]]), 3)
    close(got, torch.tensor([[5.0, 0.0], [0.0, 0.0], [11.0, 21.0]]), "the gradient of the table")


@exercise("embedding_backward", weight=2)
@few
@given(n=distinct("B", "T", "D", V=(9, 11)), seed=seeds)
def test_the_rows_together_hold_all_of_grad_out(learner, n, seed):
    """The sum of the table's rows is the sum of grad_out over all places: nothing is lost and nothing counts twice."""
    ids, grad_out = token_ids(seed, n.B, n.T, vocab=n.V - 2), tensor(seed, n.B, n.T, n.D, dtype=double)
    got = shaped(learner.embedding_backward(ids, grad_out, n.V), (n.V, n.D), "the gradient of the table", double)
    close(got.sum(0), grad_out.sum((0, 1)), "the sum of the table's rows")
    close(got[-2:], torch.zeros(2, n.D, dtype=double), "the two rows that were not looked up")


@exercise("embedding_backward", weight=2)
@few
@given(n=distinct("B", "T", "D", V=(9, 11)), seed=seeds)
def test_embedding_dtype_device_and_views(learner, reference, n, seed):
    """The gradient has the dtype and device of grad_out, also for many places with one id, the arguments may be views, and autograd is not used."""
    ids, grad_out = token_ids(seed, n.B, n.T, vocab=n.V), tensor(seed, n.B, n.T, n.D)
    many, small = torch.full((3000,), 2), torch.full((3000, 1), 1.001)
    expected = reference.embedding_backward(ids, grad_out, n.V)
    got, sum_of_many = learner.embedding_backward(ids, grad_out, n.V), learner.embedding_backward(many, small, 3)
    turned = learner.bring(on_views)(learner.embedding_backward, ids, grad_out, n.V)
    still = learner.bring(on_inference_tensors)(learner.embedding_backward, ids, grad_out, n.V)
    half = learner.bring(in_bfloat16)(learner.embedding_backward, ids, grad_out, n.V)
    close(got, expected, "the gradient in float32", tol=1e-4)
    close(turned, expected, "the gradient for tensors that are not contiguous", tol=1e-4)
    close(still, expected, "the gradient in inference mode", tol=1e-4)
    close(half, expected.bfloat16(), "the gradient in bfloat16", HALF_PRECISION)
    close(sum_of_many, torch.tensor([[0.0], [0.0], [3003.0]]), "the gradient of a row that was looked up 3000 times", tol=1e-4)
    check_device_of_result(learner, expected, learner.embedding_backward, ids, grad_out, n.V)


@exercise("embedding_backward")
@few
@given(n=distinct("B", "T", "D", V=(9, 11)), seed=seeds)
def test_embedding_gradients_are_linear_in_grad_out(learner, reference, n, seed):
    """Twice one grad_out minus another gives twice the gradient of the one minus that of the other."""
    ids = token_ids(seed, n.B, n.T, vocab=n.V)
    one, other = tensor(seed, n.B, n.T, n.D, dtype=double), tensor(seed + 1, n.B, n.T, n.D, dtype=double)
    got, first, second = (learner.embedding_backward(ids, g, n.V) for g in (2 * one - other, one, other))
    close(first, reference.embedding_backward(ids, one, n.V), "the gradient of the table")
    close(got, 2 * first - second, "the gradient for 2 * one - other")
