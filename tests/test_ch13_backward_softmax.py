"""Chapter 13, continued: softmax_backward and cross_entropy_backward."""

import math

import torch
from backward_laws import (
    HALF_PRECISION,
    by_autograd,
    by_measuring,
    computed,
    in_bfloat16,
    is_measured,
    leading,
    on_inference_tensors,
    on_views,
)
from devices_and_dtypes import check_device_of_result
from grader.runner.marks import exercise
from grader.verdict.comparing import close, shaped, sizes
from hypothesis import example, given, settings
from hypothesis import strategies as st
from masks import random_mask
from strategies import at, distinct, seeds, tensor, token_ids

few = settings(max_examples=3)  # for tests that a mistake breaks at every example: more examples would only take time
double = torch.float64


# ---- softmax_backward


@exercise("softmax_backward", weight=4)
@given(n=distinct("T", "V"), seed=seeds)
def test_softmax_agrees_with_autograd(learner, reference, n, seed):
    """From the weights and grad_out comes autograd's gradient of the scores; by default the slices are along the last axis."""
    scores, grad_out = tensor(seed, n.T, n.V, scale=1.5, dtype=double), tensor(seed + 1, n.T, n.V, dtype=double)
    got = learner.softmax_backward(torch.softmax(scores, -1), grad_out)
    close(got, by_autograd(reference.softmax, grad_out, scores)[0], "the gradient of the scores")


@exercise("softmax_backward", weight=2)
@example(n=at(B=2, T=3, V=4), dim=1, seed=0)
@example(n=at(A=1, B=2, T=3, V=4), dim=-1, seed=0)
@given(n=distinct("B", "T", "V"), dim=st.sampled_from([-1, 0, 1, 2, -2, -3]), seed=seeds)
def test_dim_chooses_the_axis_of_the_slices(learner, reference, n, dim, seed):
    """The mean that is subtracted is taken along `dim`, whichever axis that is."""
    shape = (*leading(n, "B", "T", lead=len(vars(n)) - 1), n.V)
    scores, grad_out = tensor(seed, *shape, scale=1.5, dtype=double), tensor(seed + 1, *shape, dtype=double)
    weights = torch.softmax(scores, dim)
    got, named = learner.softmax_backward(weights, grad_out, dim), learner.softmax_backward(weights, grad_out, dim=dim)
    expected = by_autograd(reference.softmax, grad_out, scores, dim)[0]
    close(got, expected, f"the gradient of the scores along {dim}")
    close(named, expected, f"the gradient of the scores with dim={dim}")


@exercise("softmax_backward", weight=10)
@few
@given(n=distinct("T", "V", least=2, most=4), seed=seeds)
def test_softmax_agrees_with_numeric_gradient(learner, n, seed):
    """The gradient is what numeric_gradient measures of chapter 3's softmax, but computed by a rule: without two forward passes for each entry."""
    scores, grad_out = tensor(seed, n.T, n.V, dtype=double), tensor(seed + 1, n.T, n.V, dtype=double)
    got = learner.softmax_backward(torch.softmax(scores, -1), grad_out)
    measured = by_measuring(learner, learner.softmax, grad_out, scores)[0]
    wasteful = is_measured(learner, learner.softmax_backward, torch.softmax(tensor(seed, 4, 8, dtype=double), -1), tensor(seed + 1, 4, 8, dtype=double))
    close(got, measured, "the gradient of the scores, against the measured one,", tol=1e-6)
    computed(wasteful)


@exercise("softmax_backward", weight=2)
@few
@given(n=distinct("T", "V"), seed=seeds)
def test_each_slice_of_the_gradient_sums_to_zero(learner, n, seed):
    """The same number added to all scores changes no weight, so the gradients of a slice sum to 0; the same number added to grad_out changes nothing."""
    weights, grad_out = torch.softmax(tensor(seed, n.T, n.V, dtype=double), -1), tensor(seed + 1, n.T, n.V, dtype=double)
    got, moved = learner.softmax_backward(weights, grad_out), learner.softmax_backward(weights, grad_out + tensor(seed + 2, n.T, 1, dtype=double))
    mean = (weights * grad_out).sum(-1, keepdim=True)
    sums = shaped(got, (n.T, n.V), "the gradient of the scores", double).sum(-1)
    close(sums, torch.zeros(n.T, dtype=double), "the sum of each slice of the gradient")
    close(got, weights * (grad_out - mean), "the gradient of the scores")
    close(moved, got, "the gradient of the scores after a number was added to each slice of grad_out")


@exercise("softmax_backward")
def test_the_worked_numbers_of_softmax(learner):
    """Weights 0.5, 0.25, 0.25 and grad_out 1, 2, 4, whose weighted mean is 2, give -0.5, 0 and 0.5."""
    weights = torch.tensor([0.5, 0.25, 0.25])
    got, first = learner.softmax_backward(weights, torch.tensor([1.0, 2.0, 4.0])), learner.softmax_backward(weights, torch.tensor([1.0, 0.0, 0.0]))
    close(got, torch.tensor([-0.5, 0.0, 0.5]), "the gradient of the scores")
    close(first, torch.tensor([0.25, -0.125, -0.125]), "the gradient of the scores for grad_out = [1, 0, 0]")


@exercise("softmax_backward", weight=2)
@few
@given(n=distinct("T", "V"), seed=seeds)
def test_weights_of_zero_get_a_gradient_of_zero(learner, n, seed):
    """A masked entry, whose weight is 0, gets 0, and so does every entry of a slice of zeros; the other slices do not change."""
    scores = tensor(seed, n.T, n.V, dtype=double).masked_fill(~random_mask(seed, n.T, n.V), -math.inf)
    weights, grad_out, row = torch.softmax(scores, -1), tensor(seed + 1, n.T, n.V, dtype=double), seed % n.T
    weights[row] = 0.0
    got = learner.softmax_backward(weights, grad_out)
    close(got, weights * (grad_out - (weights * grad_out).sum(-1, keepdim=True)), "the gradient of the scores")


@exercise("softmax_backward")
@few
@given(n=distinct("T", "V"), seed=seeds)
def test_softmax_gradients_are_linear_in_grad_out(learner, n, seed):
    """Twice one grad_out minus another gives twice the gradient of the one minus that of the other."""
    weights = torch.softmax(tensor(seed, n.T, n.V, dtype=double), -1)
    one, other = tensor(seed + 1, n.T, n.V, dtype=double), tensor(seed + 2, n.T, n.V, dtype=double)
    got, first, second = (learner.softmax_backward(weights, g) for g in (2 * one - other, one, other))
    close(first, weights * (one - (weights * one).sum(-1, keepdim=True)), "the gradient of the scores")
    close(got, 2 * first - second, "the gradient for 2 * one - other")


@exercise("softmax_backward")
@few
@given(n=distinct("B", "T", "V"), seed=seeds)
def test_softmax_dtype_device_and_views(learner, reference, n, seed):
    """The result has the dtype and device of the weights, they may be views, and autograd is not used."""
    weights, grad_out = torch.softmax(tensor(seed, n.B, n.T, n.V), -1), tensor(seed + 1, n.B, n.T, n.V)
    expected = reference.softmax_backward(weights, grad_out)
    got = learner.softmax_backward(weights, grad_out)
    turned = learner.bring(on_views)(learner.softmax_backward, weights, grad_out)
    still = learner.bring(on_inference_tensors)(learner.softmax_backward, weights, grad_out)
    half = learner.bring(in_bfloat16)(learner.softmax_backward, weights, grad_out)
    close(got, expected, "the gradient in float32", tol=1e-4)
    close(turned, expected, "the gradient for tensors that are not contiguous", tol=1e-4)
    close(still, expected, "the gradient in inference mode", tol=1e-4)
    close(half, expected.bfloat16(), "the gradient in bfloat16", HALF_PRECISION)
    check_device_of_result(learner, weights, learner.softmax_backward, weights, grad_out)


# ---- cross_entropy_backward


def some_ignored(seed, *shape, vocab, ignore_index=-100):
    """Targets of which the first is ignored, the second is not, and about a third of the others are."""
    targets, chance = token_ids(seed, *shape, vocab=vocab), tensor(seed + 5, *shape).flatten()
    chance[0], chance[1] = 1.0, -1.0
    targets = torch.where(targets == ignore_index, (targets + 1) % vocab, targets)
    return targets.masked_fill((chance > 0.4).reshape(shape), ignore_index)


one = torch.tensor(1.0, dtype=double)


@exercise("cross_entropy_backward", weight=3)
@example(n=at(B=2, T=3, V=8), lead=0, seed=0)
@example(n=at(B=1, T=3, V=8), lead=2, seed=0)
@example(n=at(A=1, B=2, T=3, V=8), lead=3, seed=0)
@given(n=distinct("B", "T", V=(8, 11)), lead=st.integers(0, 2), seed=seeds)
def test_cross_entropy_agrees_with_autograd(learner, reference, n, lead, seed):
    """The result is autograd's gradient of chapter 8's cross_entropy: (softmax - one_hot) / positions, for any number of leading axes."""
    front = leading(n, "B", "T", lead=lead)
    logits, targets = tensor(seed, *front, n.V, scale=1.5, dtype=double), token_ids(seed, *front, vocab=n.V)
    got = learner.cross_entropy_backward(logits, targets)
    close(got, by_autograd(reference.cross_entropy, one, logits, targets)[0], "the gradient of the logits")


@exercise("cross_entropy_backward", weight=4)
@given(n=distinct("B", "T", V=(8, 11)), seed=seeds)
def test_ignored_targets_get_zeros_and_do_not_count(learner, reference, n, seed):
    """A row whose target is -100 is zeros, and the kept rows are divided by the number of kept targets alone."""
    logits, targets = tensor(seed, n.B, n.T, n.V, scale=1.5, dtype=double), some_ignored(seed, n.B, n.T, vocab=n.V)
    got = learner.cross_entropy_backward(logits, targets)
    close(got, by_autograd(reference.cross_entropy, one, logits, targets)[0], "the gradient of the logits where some targets are ignored")


@exercise("cross_entropy_backward", weight=2)
@few
@given(n=distinct("B", "T", V=(8, 11)), seed=seeds)
def test_ignore_index_may_be_any_id(learner, reference, n, seed):
    """With ignore_index=3 rows with target 3 are zeros, although 3 is a real token; 0, -1 and an id beyond the vocabulary may be ignored too."""
    logits, f = tensor(seed, n.B, n.T, n.V, scale=1.5, dtype=double), learner.cross_entropy_backward
    targets = {i: some_ignored(seed, n.B, n.T, vocab=n.V, ignore_index=i) for i in (0, 3, -1, 99)}
    got = {i: (f(logits, ids, i), f(logits, ids, ignore_index=i)) for i, ids in targets.items()}
    for i, ids in targets.items():
        expected = by_autograd(reference.cross_entropy, one, logits, ids, i)[0]
        for gradient in got[i]:
            close(gradient, expected, f"the gradient of the logits with ignore_index = {i}")


@exercise("cross_entropy_backward", weight=10)
@few
@given(T=st.integers(3, 4), V=st.integers(5, 6), seed=seeds)
def test_cross_entropy_agrees_with_numeric_gradient(learner, T, V, seed):
    """A rule gives what numeric_gradient measures of chapter 8's cross_entropy, also with an ignored target, without two forward passes for each entry."""
    sizes(T=T, V=V)
    logits, targets = tensor(seed, T, V, dtype=double), some_ignored(seed, T, vocab=V)
    got = learner.cross_entropy_backward(logits, targets)
    measured = by_measuring(learner, learner.cross_entropy, one, logits, targets)[0]
    wasteful = is_measured(learner, learner.cross_entropy_backward, tensor(seed, 4, 12, dtype=double), some_ignored(seed, 4, vocab=12))
    close(got, measured, "the gradient of the logits, against the measured one,", tol=1e-6)
    computed(wasteful)


@exercise("cross_entropy_backward")
def test_the_worked_numbers_of_cross_entropy(learner):
    """Probabilities 0.7, 0.2, 0.1 and target 1 give 0.7, -0.8, 0.1; three such rows with targets 1, ignored and 0 share the gradient between two."""
    row = torch.tensor([0.7, 0.2, 0.1]).log()
    alone, three = learner.cross_entropy_backward(row, torch.tensor(1)), learner.cross_entropy_backward(row.repeat(3, 1), torch.tensor([1, -100, 0]))
    close(alone, torch.tensor([0.7, -0.8, 0.1]), "the gradient of one row of logits")
    close(three, torch.tensor([[0.35, -0.4, 0.05], [0.0, 0.0, 0.0], [-0.15, 0.1, 0.05]]), "the gradient of three rows of logits")


@exercise("cross_entropy_backward", weight=2)
@few
@given(n=distinct("B", "T", V=(8, 11)), seed=seeds)
def test_if_all_targets_are_ignored_the_gradient_is_zeros(learner, reference, n, seed):
    """With nothing kept the loss is 0 whatever the logits are, so the gradient is zeros and not NaN."""
    logits, targets = tensor(seed, n.B, n.T, n.V, dtype=double), some_ignored(seed, n.B, n.T, vocab=n.V)
    some, none = learner.cross_entropy_backward(logits, targets), learner.cross_entropy_backward(logits, torch.full_like(targets, -100))
    close(some, reference.cross_entropy_backward(logits, targets), "the gradient of the logits")
    close(none, torch.zeros_like(logits), "the gradient where all targets are ignored")


@exercise("cross_entropy_backward", weight=2)
@few
@given(n=distinct("T", V=(8, 11)), seed=seeds)
def test_extreme_logits_give_a_finite_gradient(learner, reference, n, seed):
    """Logits around 10000 and around -10000, and logits of -inf, give probabilities and no NaN."""
    logits = tensor(seed, n.T, n.V, scale=2.0, dtype=double) + 1e4 * torch.cos(math.pi * torch.arange(n.T))[:, None]
    apart, targets = tensor(seed, n.T, n.V, scale=1e4, dtype=double), token_ids(seed, n.T, vocab=n.V)
    hidden = logits.masked_fill((tensor(seed + 1, n.T, n.V) > 0.5).scatter(-1, targets[:, None], False), -math.inf)
    values = {"around 10000 and -10000": logits, "as far apart as 10000": apart, "of -inf": hidden}
    got = {name: learner.cross_entropy_backward(value, targets) for name, value in values.items()}
    for name, value in values.items():
        close(got[name], reference.cross_entropy_backward(value, targets), f"the gradient for logits {name}")


@exercise("cross_entropy_backward")
@few
@given(n=distinct("B", "T", V=(8, 11)), seed=seeds)
def test_each_row_of_the_gradient_sums_to_zero(learner, reference, n, seed):
    """The same number added to all logits of a row does not change the loss, so the gradients of each row sum to 0."""
    logits, targets = tensor(seed, n.B, n.T, n.V, dtype=double), some_ignored(seed, n.B, n.T, vocab=n.V)
    got = learner.cross_entropy_backward(logits, targets)
    close(shaped(got, (n.B, n.T, n.V), "the gradient of the logits", double).sum(-1), torch.zeros(n.B, n.T, dtype=double), "the sum of each row")
    close(got, reference.cross_entropy_backward(logits, targets), "the gradient of the logits")


@exercise("cross_entropy_backward")
@few
@given(n=distinct("B", "T", V=(8, 11)), seed=seeds)
def test_cross_entropy_dtype_device_and_views(learner, reference, n, seed):
    """The result has the dtype and device of the logits, logits and targets may be views, and autograd is not used."""
    logits, targets = tensor(seed, n.B, n.T, n.V), some_ignored(seed, n.B, n.T, vocab=n.V)
    expected = reference.cross_entropy_backward(logits, targets)
    got = learner.cross_entropy_backward(logits, targets)
    turned = learner.bring(on_views)(learner.cross_entropy_backward, logits, targets)
    still = learner.bring(on_inference_tensors)(learner.cross_entropy_backward, logits, targets)
    half = learner.bring(in_bfloat16)(learner.cross_entropy_backward, logits, targets)
    close(got, expected, "the gradient in float32", tol=1e-4)
    close(turned, expected, "the gradient for tensors that are not contiguous", tol=1e-4)
    close(still, expected, "the gradient in inference mode", tol=1e-4)
    close(half, expected.bfloat16(), "the gradient in bfloat16", HALF_PRECISION)
    check_device_of_result(learner, logits, learner.cross_entropy_backward, logits, targets)
