"""Chapter 17, third part: log probabilities of answers, and the losses of pairs of answers."""

from __future__ import annotations

import math

import torch
from grader.execution.proxy import gradients
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, same, shaped
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest_check import check
from strategies import distinct, seeds, tensor, token_ids

few = settings(max_examples=3)
cubes = distinct("B", "T", "V", B=(2, 4), T=(4, 6), V=(7, 9))
pair_counts = st.integers(2, 5)


def targets_with_gaps(seed, n, ignored=-100):
    """Targets of which the first row has the first two ignored, and the others the last."""
    targets = token_ids(seed, n.B, n.T, vocab=n.V, least=1)
    targets[0, :2], targets[1:, -1] = ignored, ignored
    return targets


def sums(logits, targets, ignored=-100):
    """The sum of log p, target by target, in float64."""
    log_probs = logits.double() - logits.double().logsumexp(-1, keepdim=True)
    rows = [[log_probs[b, t, i] for t, i in enumerate(row) if i != ignored] for b, row in enumerate(targets.tolist())]
    return torch.stack([torch.stack([torch.zeros((), dtype=torch.float64), *row]).sum() for row in rows])


# ---- sequence_log_prob


@exercise("sequence_log_prob", weight=3)
@few
@given(n=cubes, seed=seeds)
def test_it_is_the_sum_of_the_targets_log_probabilities(learner, n, seed):
    """Each text gets the sum, and not the mean, of log p(target) over its targets, p being the softmax over the vocabulary: (B,)."""
    logits, targets = tensor(seed, n.B, n.T, n.V, scale=2.0), token_ids(seed, n.B, n.T, vocab=n.V)
    got, one = learner.sequence_log_prob(logits, targets), learner.sequence_log_prob(logits[:1, :1], targets[:1, :1])
    turned = learner.bring(with_views)(learner.sequence_log_prob, logits, targets)
    half = learner.sequence_log_prob(logits.bfloat16(), targets)
    close(got, sums(logits, targets).float(), "the log probabilities")
    close(one, sums(logits[:1, :1], targets[:1, :1]).float(), "the log probabilities of one text with one target")
    close(turned, sums(logits, targets).float(), "the log probabilities, if the arguments are views")
    shaped(half, (n.B,), "the log probabilities of bfloat16 logits", torch.bfloat16)


def with_views(f, logits, targets):
    """The result for the same numbers as views, whose first two axes are exchanged in memory."""
    return f(*(t.transpose(0, 1).contiguous().transpose(0, 1) for t in (logits, targets)))


@exercise("sequence_log_prob", weight=3)
@few
@given(n=cubes, seed=seeds)
def test_ignored_targets_add_nothing(learner, n, seed):
    """Positions whose target is ignore_index add nothing, whatever their logits are; a text without a target has 0; id 0 counts like any other."""
    logits, targets = tensor(seed, n.B, n.T, n.V, scale=2.0), targets_with_gaps(seed, n)
    targets[0, 2], none = 0, torch.full_like(targets, -100)
    none[0] = targets[0]
    changed = torch.where((targets == -100)[..., None], tensor(seed + 1, n.B, n.T, n.V, scale=5.0), logits)
    got = [learner.sequence_log_prob(*arguments) for arguments in ((logits, targets), (changed, targets), (logits, none))]
    close(got[0], sums(logits, targets).float(), "the log probabilities")
    close(got[1], got[0], "the log probabilities after only logits of ignored positions were changed")
    close(got[2], sums(logits, none).float(), "the log probabilities if only the first text has targets")


@exercise("sequence_log_prob")
@few
@given(n=cubes, seed=seeds)
def test_ignore_index_may_be_another_number(learner, n, seed):
    """Only targets equal to ignore_index are ignored: with ignore_index = 0, word 0 does not count."""
    logits, numbers = tensor(seed, n.B, n.T, n.V, scale=2.0), (-1, 0)
    targets = {number: targets_with_gaps(seed, n, number) for number in numbers}
    got = {number: learner.sequence_log_prob(logits, targets[number], ignore_index=number) for number in numbers}
    for number in numbers:
        close(got[number], sums(logits, targets[number], number).float(), f"the log probabilities with ignore_index = {number}")


@exercise("sequence_log_prob", weight=2)
@few
@given(n=cubes, seed=seeds)
def test_the_gradient_is_one_hot_minus_softmax(learner, n, seed):
    """The gradient of the logits is one-hot - softmax at each target, and exactly zero at ignored positions."""
    logits, targets, weights = tensor(seed, n.B, n.T, n.V), targets_with_gaps(seed, n), tensor(seed + 1, n.B)
    found = gradients(learner.sequence_log_prob, logits, targets, cotangent=weights)
    kept = (targets != -100)[..., None]
    one_hot = torch.zeros_like(logits).scatter(-1, targets.clamp(min=0)[..., None], 1.0)
    close(found.inputs[0], weights[:, None, None] * (one_hot - logits.softmax(-1)) * kept, "the gradient of the logits")


@exercise("sequence_log_prob", weight=2)
@few
@given(n=cubes, seed=seeds)
def test_log_probabilities_of_any_size_are_finite(learner, n, seed):
    """Logits of ten thousand give finite log probabilities; float64 logits give float64."""
    targets, x = targets_with_gaps(seed, n), tensor(seed, n.B, n.T, n.V, dtype=torch.float64)
    far, double = learner.sequence_log_prob((x * 1e4).float(), targets), learner.sequence_log_prob(x, targets)
    close(far, sums((x * 1e4).float(), targets).float(), "the log probabilities with large logits", tol=1e-4)
    close(double, sums(x, targets), "the log probabilities of float64 logits")


# ---- reward_loss


def surprise(d):
    """-log sigmoid(d), without overflow, in float64."""
    return (-d.double()).clamp(min=0) + torch.log1p(torch.exp(-d.double().abs()))


@exercise("reward_loss", weight=3)
@few
@given(B=pair_counts, seed=seeds)
def test_the_loss_is_minus_the_log_sigmoid_of_the_difference(learner, B, seed):
    """The loss is the mean over the pairs of -log σ(chosen - rejected); it is ln 2 where both rewards are equal."""
    chosen, rejected = tensor(seed, B, scale=2.0), tensor(seed + 1, B)
    got, equal = learner.reward_loss(chosen, rejected), learner.reward_loss(chosen, chosen)
    double, half = learner.reward_loss(chosen.double(), rejected.double()), learner.reward_loss(chosen.bfloat16(), rejected.bfloat16())
    close(got, surprise(chosen - rejected).mean().float(), "the loss")
    close(equal, torch.tensor(math.log(2)), "the loss of equal rewards")
    close(double, surprise(chosen.double() - rejected.double()).mean(), "the loss of float64 rewards")
    shaped(half, (), "the loss of bfloat16 rewards", torch.bfloat16)


@exercise("reward_loss", weight=2)
@few
@given(B=pair_counts, seed=seeds)
def test_a_margin_asks_for_more(learner, B, seed):
    """The chosen reward must be better by the margin: the loss is that of chosen - rejected - margin."""
    chosen, rejected = tensor(seed, B, scale=2.0), tensor(seed + 1, B)
    got = {margin: learner.reward_loss(chosen, rejected, margin) for margin in (0.5, 3.0)}
    for margin, loss in got.items():
        close(loss, surprise(chosen - rejected - margin).mean().float(), f"the loss with margin = {margin}")


@exercise("reward_loss", weight=2)
@few
@given(B=pair_counts, seed=seeds)
def test_both_rewards_are_pushed_equally(learner, B, seed):
    """The gradient of a chosen reward is -σ(rejected - chosen) / B, and that of the rejected reward the same with the other sign."""
    chosen, rejected = tensor(seed, B, scale=2.0), tensor(seed + 1, B)
    found = gradients(learner.reward_loss, chosen, rejected)
    push = torch.sigmoid(rejected - chosen) / B * math.cos(0.3)
    close(found.inputs[0], -push, "the gradient of the chosen rewards")
    close(found.inputs[1], push, "the gradient of the rejected rewards")


@exercise("reward_loss", weight=2)
def test_rewards_of_any_size_are_safe(learner):
    """With rewards of ±1e4, loss and gradients are finite: the loss is the distance if the order is wrong, and 0 if it is right."""
    wrong = gradients(learner.reward_loss, torch.tensor([-1e4]), torch.tensor([1e4]))
    right = gradients(learner.reward_loss, torch.tensor([1e4]), torch.tensor([-1e4]))
    both = learner.reward_loss(torch.tensor([1e4, 0.0]), torch.tensor([-1e4, 0.0]))
    close(wrong.output, torch.tensor(2e4), "the loss of chosen = -1e4 and rejected = 1e4")
    close(wrong.inputs[0], torch.tensor([-math.cos(0.3)]), "the gradient of chosen = -1e4")
    close(right.output, torch.tensor(0.0), "the loss of chosen = 1e4 and rejected = -1e4")
    close(right.inputs[0], torch.tensor([0.0]), "the gradient of chosen = 1e4")
    close(both, torch.tensor(math.log(2) / 2), "the loss of that pair and one of equal rewards")


# ---- dpo_loss


def four(seed, B):
    """Log probabilities of whole answers."""
    return [tensor(seed + i, B, scale=3.0) - 20 for i in range(4)]


def dpo(values, beta):
    chosen, rejected = beta * (values[0] - values[2]), beta * (values[1] - values[3])
    return surprise(chosen - rejected).mean().float(), chosen, rejected


@exercise("dpo_loss", weight=3)
@few
@given(B=pair_counts, seed=seeds)
def test_the_loss_compares_how_far_both_answers_moved(learner, B, seed):
    """The loss is the mean of -log σ(beta · ((policy - reference) of the chosen answer - the same of the rejected one)), for any beta, 0.1 unless given."""
    values = four(seed, B)
    got, default = {beta: learner.dpo_loss(*values, beta) for beta in (0.5, 2.0)}, learner.dpo_loss(*values)
    for beta, found in got.items():
        close(found[0], dpo(values, beta)[0], f"the loss with beta = {beta}")
    close(default[0], dpo(values, 0.1)[0], "the loss with the default beta")
    double = [value.double() for value in values]
    far, (_, chosen, rejected) = learner.dpo_loss(*double, 0.5), dpo(double, 0.5)
    half = learner.dpo_loss(*(value.bfloat16() for value in values), 0.5)
    close(far, [surprise(chosen - rejected).mean(), chosen, rejected], "loss and rewards in float64")
    for part, shape in zip(half, ((), (B,), (B,))):
        shaped(part, shape, "a part of the result in bfloat16", torch.bfloat16)


@exercise("dpo_loss", weight=2)
@few
@given(B=pair_counts, seed=seeds)
def test_rewards_are_beta_times_the_change(learner, B, seed):
    """The rewards, one for each pair, are beta · (policy - reference), first those of the chosen answers."""
    values = four(seed, B)
    loss, chosen, rejected = learner.dpo_loss(*values, 0.5)
    shaped(loss, (), "the loss")
    close(chosen, dpo(values, 0.5)[1], "the rewards of the chosen answers")
    close(rejected, dpo(values, 0.5)[2], "the rewards of the rejected answers")


@exercise("dpo_loss", weight=2)
@few
@given(B=pair_counts, seed=seeds)
def test_the_gradients_of_a_pair_sum_to_zero(learner, B, seed):
    """The policy's gradient is -beta · σ(rejected_reward - chosen_reward) / B for a chosen answer and the opposite for the rejected one; the reference gets none."""
    values, beta = four(seed, B), 0.5
    found = gradients(learner.dpo_loss, *values, beta)
    _, chosen, rejected = dpo(values, beta)
    push = beta * torch.sigmoid(rejected - chosen) / B * math.cos(0.3)
    with check:
        close(found.inputs[0], -push, "the gradient of policy_chosen")
    with check:
        close(found.inputs[1], push, "the gradient of policy_rejected")
    for name, gradient in zip(("reference_chosen", "reference_rejected"), found.inputs[2:]):
        holds(gradient is None or not gradient.any(), f"{name} gets a gradient; the reference model is fixed")


def rewards_in_a_graph(dpo_loss, values):
    """Whether loss and rewards depend on the policy for autograd."""
    leaves = [value.clone().requires_grad_() for value in values]
    return [part.requires_grad for part in dpo_loss(*leaves, 0.5)]


@exercise("dpo_loss")
def test_the_rewards_are_detached(learner):
    """The loss can be differentiated; the rewards are plain numbers to look at, without a graph."""
    attached = learner.bring(rewards_in_a_graph)(learner.dpo_loss, four(3, 2))
    same(attached, [True, False, False], "whether loss, chosen_reward and rejected_reward need gradients")


@exercise("dpo_loss", weight=2)
def test_it_begins_at_ln_2_and_vanishes_when_the_preference_is_met(learner):
    """If the policy is the reference, the loss is ln 2. If the policy has moved far in the right direction, loss and gradient vanish; far in the wrong one, both stay finite."""
    chosen, rejected = tensor(1, 3) - 20, tensor(2, 3) - 20
    start = learner.dpo_loss(chosen, rejected, chosen, rejected, 0.5)
    met = gradients(learner.dpo_loss, chosen + 1e4, rejected - 1e4, chosen, rejected, 0.5)
    missed = gradients(learner.dpo_loss, chosen - 1e4, rejected + 1e4, chosen, rejected, 0.5)
    close(start[0], torch.tensor(math.log(2)), "the loss if the policy is the reference")
    close(met.output[0], torch.tensor(0.0), "the loss if the preference is met by far")
    close(met.inputs[0], torch.zeros(3), "the gradient of policy_chosen if the preference is met by far")
    close(missed.output[0], torch.tensor(1e4), "the loss if the preference is missed by far")
    close(missed.inputs[0], torch.full((3,), -0.5 / 3 * math.cos(0.3)), "the gradient of policy_chosen if the preference is missed by far")


# ---- kl_estimate


@exercise("kl_estimate", weight=3)
@few
@given(n=distinct("B", "T", B=(2, 4), T=(3, 5)), seed=seeds)
def test_the_three_estimates(learner, n, seed):
    """With d = policy - reference, k1 is d, k2 is d²/2, and k3, the default, is exp(-d) - 1 + d."""
    policy, reference_model = tensor(seed, n.B, n.T) - 3, tensor(seed + 1, n.B, n.T) - 3
    got = {kind: learner.kl_estimate(policy, reference_model, kind) for kind in ("k1", "k2", "k3")}
    default = learner.kl_estimate(policy, reference_model)
    d = policy - reference_model
    expected = {"k1": d, "k2": d**2 / 2, "k3": torch.exp(-d) - 1 + d}
    for kind, right in expected.items():
        with check:
            close(got[kind], right, f"the estimates with kind = {kind!r}")
    with check:
        close(default, expected["k3"], "the estimates with the default kind")


@exercise("kl_estimate", weight=3)
@few
@given(V=st.integers(4, 7), seed=seeds)
def test_the_expectations_of_k1_and_k3_are_the_kl(learner, V, seed):
    """Summed over all V tokens with the policy's probabilities, k1 and k3 are exactly KL(policy ‖ reference): each token can be drawn once."""
    policy = tensor(seed, V, dtype=torch.float64).log_softmax(0)
    fixed = tensor(seed + 1, V, dtype=torch.float64).log_softmax(0)
    got = {kind: learner.kl_estimate(policy, fixed, kind) for kind in ("k1", "k3")}
    kl = (policy.exp() * (policy - fixed)).sum()
    for kind, estimates in got.items():
        shaped(estimates, (V,), f"the estimates with kind = {kind!r}", torch.float64)
        close((policy.exp() * estimates).sum(), kl, f"the expectation of {kind}")


@exercise("kl_estimate", weight=2)
@few
@given(seed=seeds)
def test_k3_is_never_negative(learner, seed):
    """k3 is at least 0 for every token, and 0 where both models agree; k1 has both signs."""
    policy = tensor(seed, 40, scale=2.0) - 5
    got, equal = learner.kl_estimate(policy, tensor(seed + 1, 40, scale=2.0) - 5), learner.kl_estimate(policy, policy)
    shaped(got, (40,), "the estimates")
    holds(bool((got >= -1e-6).all()), f"the smallest estimate is {float(got.min()):.4f}; k3 is never negative")
    holds(bool((got > 0.05).sum() > 10), "nearly all estimates are 0, although the models differ")
    close(equal, torch.zeros(40), "the estimates where both models agree")


@exercise("kl_estimate")
@few
@given(n=distinct("B", "T", B=(2, 4), T=(3, 5)), seed=seeds)
def test_the_gradient_reaches_the_policy(learner, n, seed):
    """The gradient of the policy is 1 for k1, d for k2 and 1 - exp(-d) for k3."""
    policy, fixed, weights = (tensor(seed + i, n.B, n.T) for i in range(3))
    d = policy - fixed
    found = {kind: gradients(learner.kl_estimate, policy, fixed, kind, cotangent=weights).inputs[0] for kind in ("k1", "k2", "k3")}
    for kind, slope in (("k1", torch.ones_like(d)), ("k2", d), ("k3", 1 - torch.exp(-d))):
        close(found[kind], weights * slope, f"the gradient of the policy with kind = {kind!r}")


@exercise("kl_estimate")
def test_an_unknown_kind_is_refused(learner):
    """A kind other than k1, k2 and k3 raises a ValueError that names it."""
    policy, fixed = tensor(1, 3), tensor(2, 3)
    fine = learner.kl_estimate(policy, fixed, kind="k1")
    for kind in ("k4", "KL"):
        refuses(lambda kind=kind: learner.kl_estimate(policy, fixed, kind=kind), naming={"kind": kind}, because="there are only k1, k2 and k3")
    close(fine, policy - fixed, "the estimates with kind = 'k1'")
