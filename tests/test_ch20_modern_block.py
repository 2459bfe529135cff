"""Chapter 20, first part: capped logits, and the loss of several heads. Attention and optimizers are in the other files."""

from __future__ import annotations

import torch
from devices_and_dtypes import check_device_of_result
from grader.execution.proxy import gradients
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, same, shaped
from hypothesis import given, settings
from memory_layouts import of_views
from pytest_check import check
from strategies import distinct, seeds, tensor, token_ids

few = settings(max_examples=3)
shapes = distinct("B", "T", "V")
ONE = torch.ones(())  # the cotangent of a loss


# ---- soft_cap


def capped(x, cap):
    """cap · tanh(x / cap) in float64, with no power above 1."""
    small = torch.exp(-2 * x.double().abs() / cap)
    return cap * x.double().sign() * (1 - small) / (1 + small)


@exercise("soft_cap", weight=3)
@few
@given(n=shapes, seed=seeds)
def test_logits_are_squashed_smoothly(learner, n, seed):
    """Each logit becomes cap · tanh(logit / cap), in any shape, for a cap of 0.5 as for one of 30."""
    inputs = {cap: tensor(seed, n.B, n.T, n.V, scale=1.5 * cap) for cap in (0.5, 4, 30.0)}
    got, alone = {cap: learner.soft_cap(x, cap) for cap, x in inputs.items()}, learner.soft_cap(inputs[4][0, 0], 4)
    for cap, x in inputs.items():
        close(got[cap], capped(x, cap).float(), f"the logits with cap = {cap}")
    close(alone, capped(inputs[4][0, 0], 4).float(), "one row of logits with cap = 4")


@exercise("soft_cap")
@few
@given(n=shapes, seed=seeds)
def test_small_logits_hardly_change_and_large_ones_meet_the_cap(learner, n, seed):
    """A logit of a hundredth of the cap changes by less than a thousandth of itself, and no logit leaves -cap to cap; signs stay."""
    x = tensor(seed, n.B, n.V).clamp(-3, 3)
    small, large = learner.soft_cap(x / 3, 100.0), learner.soft_cap(x.sign() * 1e4, 30.0)
    close(small, x / 3, "the logits within a hundredth of the cap", tol=1e-4)
    close(large, x.sign() * 30.0, "the logits of ±10,000 with cap = 30")


@exercise("soft_cap", weight=2)
@few
@given(n=shapes, seed=seeds)
def test_no_logit_is_without_a_gradient(learner, n, seed):
    """The gradient is 1 - tanh(logit / cap)²: beyond the cap it is small but not zero, and it is finite for logits of ±1e4."""
    x, weights = tensor(seed, n.B, n.T, scale=10.0), tensor(seed + 1, n.B, n.T)
    found, far = gradients(learner.soft_cap, x, 8.0, cotangent=weights), gradients(learner.soft_cap, torch.tensor([1e4, -1e4, 0.0]), 8.0, cotangent=torch.ones(3))
    close(found.inputs[0], weights * (1 - (capped(x, 8.0) / 8) ** 2).float(), "the gradient of the logits")
    close(far.output, torch.tensor([8.0, -8.0, 0.0]), "the logits of 1e4, -1e4 and 0 with cap = 8")
    close(far.inputs[0], torch.tensor([0.0, 0.0, 1.0]), "the gradient of logits of 1e4, -1e4 and 0")


@exercise("soft_cap")
@few
@given(n=shapes, seed=seeds)
def test_dtype_and_device_of_logits_stay(learner, n, seed):
    """float64 keeps its digits, bfloat16 stays bfloat16, and the result is on the device of the logits."""
    x = tensor(seed, n.B, n.V, scale=20.0, dtype=torch.float64)
    exact, half = learner.soft_cap(x, 15.0), learner.soft_cap(x.bfloat16(), 15.0)
    close(exact, capped(x, 15.0), "the logits in float64")
    close(half, capped(x.bfloat16(), 15.0).bfloat16(), "the logits in bfloat16")
    check_device_of_result(learner, x, learner.soft_cap, x, 15.0)


@exercise("soft_cap")
@few
@given(n=shapes, seed=seeds)
def test_logits_to_cap_may_be_a_view(learner, n, seed):
    """Logits that lie in another order in memory have the same result, and keep their values."""
    x = tensor(seed, n.B, n.T, n.V, scale=20.0)
    close(learner.bring(of_views)(learner.soft_cap, x, 15.0), capped(x, 15.0).float(), "the logits with cap = 15, given as a view")


@exercise("soft_cap")
def test_a_cap_that_is_not_above_0_is_refused(learner):
    """A cap of 0 or less raises a ValueError that names cap; a very small cap is fine."""
    x = tensor(1, 2, 3)
    fine = learner.soft_cap(x, 1e-3)
    for cap in (0.0, -2.5):
        refuses(lambda cap=cap: learner.soft_cap(x, cap), naming={"cap": cap}, because="a cap must be above 0")
    close(fine, x.sign() * 1e-3, "the logits with cap = 0.001", tol=1e-3)


# ---- multi_token_loss


cubes = distinct("K", "B", "T", "V", K=(2, 3), B=(2, 4), T=(5, 6), V=(7, 9))
IGNORED = -100


def head_losses(logits, targets, ignored=IGNORED):
    """Each head's mean of -log p, target by target, in float64; 0 for a head without targets."""
    log_probs = logits.double() - logits.double().logsumexp(-1, keepdim=True)
    ids, heads = targets.tolist(), []
    for k, own in enumerate(log_probs):
        found = [-own[b, t, row[t + k]] for b, row in enumerate(ids) for t in range(len(row) - k) if row[t + k] != ignored]
        heads.append(torch.stack(found).mean() if found else (own * 0).sum())
    return torch.stack(heads)


def of_heads(logits, targets, ignored=IGNORED):
    return head_losses(logits, targets, ignored).mean()


def with_gaps(seed, n, ignored=IGNORED):
    """Targets of which the first row has the first three ignored, and the others one in the middle."""
    targets = token_ids(seed, n.B, n.T, vocab=n.V, least=1)
    targets[0, :3], targets[1:, 2] = ignored, ignored
    return targets


@exercise("multi_token_loss", weight=4)
@few
@given(n=cubes, seed=seeds)
def test_head_k_predicts_the_target_k_places_further(learner, n, seed):
    """logits[k, b, t] belong to targets[b, t + k]; the loss is the mean of the heads' mean cross-entropies, each over T - k positions."""
    logits, targets = tensor(seed, n.K, n.B, n.T, n.V, scale=2.0), token_ids(seed, n.B, n.T, vocab=n.V)
    close(learner.multi_token_loss(logits, targets), of_heads(logits, targets).float(), "the loss")


@exercise("multi_token_loss", weight=2)
@few
@given(n=cubes, seed=seeds)
def test_one_head_has_the_usual_loss(learner, n, seed):
    """With K = 1 the loss is the mean cross-entropy of predicting the next token, also for a text of one token."""
    logits, targets = tensor(seed, 1, n.B, n.T, n.V, scale=2.0), token_ids(seed, n.B, n.T, vocab=n.V)
    got, short = learner.multi_token_loss(logits, targets), learner.multi_token_loss(logits[:, :, :1], targets[:, :1])
    close(got, of_heads(logits, targets).float(), "the loss of one head")
    close(short, of_heads(logits[:, :, :1], targets[:, :1]).float(), "the loss of one head for one token")


@exercise("multi_token_loss", weight=3)
@few
@given(n=cubes, seed=seeds)
def test_ignored_targets_do_not_count(learner, n, seed):
    """A target that is ignore_index counts for no head, and not in the number to divide by; the positions before it still count. Any number may be ignore_index."""
    logits = tensor(seed, n.K, n.B, n.T, n.V, scale=2.0)
    targets = {number: with_gaps(seed, n, number) for number in (IGNORED, 0, -1)}
    got = {number: learner.multi_token_loss(logits, targets[number], ignore_index=number) for number in (0, -1)}
    got[IGNORED] = learner.multi_token_loss(logits, targets[IGNORED])
    for number, loss in got.items():
        close(loss, of_heads(logits, targets[number], number).float(), f"the loss with ignore_index = {number}")


@exercise("multi_token_loss", weight=2)
@few
@given(n=cubes, seed=seeds)
def test_a_head_without_targets_counts_with_0(learner, n, seed):
    """A head that is further ahead than the text is long, or whose targets are all ignored, has a loss of 0 and counts in the mean; gradients stay finite."""
    K, targets = n.T + 2, token_ids(seed, n.B, n.T, vocab=n.V)
    logits, nothing = tensor(seed, K, n.B, n.T, n.V, scale=2.0), torch.full_like(targets, IGNORED)
    only_first = nothing.clone()
    only_first[:, 0] = targets[:, 0]
    cases = {"more heads than tokens": targets, "every target ignored": nothing, "only the first target of a row not ignored": only_first}
    found = {what: gradients(learner.multi_token_loss, logits, which, cotangent=ONE) for what, which in cases.items()}
    for what, which in cases.items():
        close(found[what].output, of_heads(logits, which).float(), f"the loss with {what}")
        gradient = found[what].inputs[0]
        holds(gradient is None or bool(gradient.isfinite().all()), f"a gradient is not finite with {what}")


@exercise("multi_token_loss", weight=3)
@few
@given(n=cubes, seed=seeds)
def test_each_head_learns_from_its_own_targets(learner, n, seed):
    """The gradient is (softmax - one-hot) / (K · the head's number of targets), and exactly zero at ignored targets and in a head's last k positions."""
    logits, targets = tensor(seed, n.K, n.B, n.T, n.V), with_gaps(seed, n)
    found = gradients(learner.multi_token_loss, logits, targets, cotangent=ONE)
    leaf = logits.double().requires_grad_()
    (expected,) = torch.autograd.grad(of_heads(leaf, targets), leaf)
    close(found.inputs[0], expected.float(), "the gradient of the logits")
    last = found.inputs[0][-1, :, n.T - n.K + 1 :]
    same(float(last.abs().max()), 0.0, "the largest gradient of the last head's logits that have no target")


@exercise("multi_token_loss")
@few
@given(n=cubes, seed=seeds)
def test_loss_of_logits_of_any_size(learner, n, seed):
    """Logits of ten thousand give a finite loss and finite gradients; float64 logits give a float64 loss, bfloat16 logits a bfloat16 one, on their device."""
    x, targets = tensor(seed, n.K, n.B, n.T, n.V, dtype=torch.float64), with_gaps(seed, n)
    far, exact = gradients(learner.multi_token_loss, (x * 1e4).float(), targets, cotangent=ONE), learner.multi_token_loss(x, targets)
    half = learner.multi_token_loss(x.bfloat16(), targets)
    with check:
        close(far.output, of_heads((x * 1e4).float(), targets).float(), "the loss of large logits", tol=1e-4)
    with check:
        holds(far.inputs[0] is not None and bool(far.inputs[0].isfinite().all()), "a gradient of large logits is not finite")
    with check:
        close(shaped(exact, (), "the loss", torch.float64), of_heads(x, targets), "the loss of float64 logits")
    with check:
        close(shaped(half, (), "the loss", torch.bfloat16), of_heads(x.bfloat16(), targets).bfloat16(), "the loss of bfloat16 logits", tol=6e-2)
    check_device_of_result(learner, exact, learner.multi_token_loss, x, targets)


@exercise("multi_token_loss")
@few
@given(n=cubes, seed=seeds)
def test_logits_and_targets_may_be_views(learner, n, seed):
    """Logits and targets that lie in another order in memory give the same loss."""
    logits, targets = tensor(seed, n.K, n.B, n.T, n.V, scale=2.0), with_gaps(seed, n)
    close(learner.bring(of_views)(learner.multi_token_loss, logits, targets), of_heads(logits, targets).float(), "the loss of views")
