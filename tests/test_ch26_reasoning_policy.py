"""Chapter 26, second part: a KL loss with the right gradient, clipped losses, and weights for tokens of another program."""

from __future__ import annotations

import math
from types import SimpleNamespace

import torch
from calls import recorded_call
from grader.execution.proxy import gradients
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, same, shaped, sizes
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_layouts import of_views
from pytest_check import check
from strategies import distinct, seeds, tensor

few = settings(max_examples=3)
batches = distinct("B", "T", B=(3, 4), T=(5, 7))
ODD = {"nan": (torch.nan, torch.nan), "-inf": (-torch.inf, -torch.inf), "inf": (torch.inf, 0.0), "ten thousand": (1e4, -1e4)}


def sizes_of(B, T):
    sizes(B=B, T=T)
    return SimpleNamespace(B=B, T=T)


def answers_of(n):
    """A mask with answers of different lengths, which begin at different places."""
    steps = torch.arange(n.T)
    starts, stops = torch.arange(n.B) % 2, n.T - torch.arange(n.B) % 3
    return (steps >= starts[:, None]) & (steps < stops[:, None])


def has_no_gradient(found, names):
    """What `gradients` found is nothing, or zeros, for the inputs after the first one."""
    for name, gradient in zip(names, found.inputs[1:]):
        holds(gradient is None or not gradient.any(), f"{name} should get no gradient")


# ---- kl_loss


def expected_gradient(kl_loss, logits, reference, mask, elsewhere):
    """The gradient of the loss by the logits (places, V), averaged over all tokens that can be drawn at the places of the mask."""
    import itertools

    places, vocabulary = logits.shape
    leaf = logits.clone().requires_grad_()
    total = torch.zeros((), dtype=logits.dtype)
    for tokens in itertools.product(range(vocabulary), repeat=places):
        log_p = leaf.log_softmax(-1)[range(places), tokens]
        loss = kl_loss(elsewhere.masked_scatter(mask, log_p), elsewhere.masked_scatter(mask, reference[range(places), tokens]), mask)
        total = total + log_p.detach().sum().exp() * loss
    if total.requires_grad:
        total.sum().backward()
    return leaf.grad


def slope_of_kl(logits, reference):
    """The gradient of KL(policy ‖ reference) by the logits of each place."""
    p, d = logits.softmax(-1), logits.log_softmax(-1) - reference
    return p * (d - (p * d).sum(-1, keepdim=True))


@exercise("kl_loss", weight=4)
@few
@given(V=st.integers(3, 6), seed=seeds)
def test_the_expected_gradient_is_that_of_the_kl(learner, V, seed):
    """A policy draws one of V tokens. Averaged over all tokens, each as often as the policy draws it, the gradient of the loss by the logits is the gradient of KL(policy ‖ reference), exactly. The value of the loss does not matter."""
    sizes(V=V)
    logits, reference = tensor(seed, 1, V, scale=1.5, dtype=torch.float64), tensor(seed + 1, 1, V, scale=1.5, dtype=torch.float64).log_softmax(-1)
    one = torch.ones(1, 1, dtype=torch.bool)
    found = learner.bring(expected_gradient)(learner.kl_loss, logits, reference, one, torch.zeros(1, 1, dtype=torch.float64))
    close(found, slope_of_kl(logits, reference), "the expected gradient of the logits")


@exercise("kl_loss", weight=4)
@few
@given(seed=seeds, V=st.integers(2, 3))
def test_every_token_of_the_mask_counts_the_same(learner, seed, V):
    """With several answers, the expected gradient is the mean over all tokens where the mask is True, also if one answer has more of them than another."""
    sizes(V=V)
    logits, reference = tensor(seed, 3, V, dtype=torch.float64), tensor(seed + 1, 3, V, dtype=torch.float64).log_softmax(-1)
    mask = torch.tensor([[False, True, True, False], [True, False, False, False]])
    elsewhere = tensor(seed + 2, 2, 4, dtype=torch.float64) - 3
    found = learner.bring(expected_gradient)(learner.kl_loss, logits, reference, mask, elsewhere)
    close(found, slope_of_kl(logits, reference) / 3, "the expected gradient of the logits of three tokens")


def drawn_twice(n, seed):
    """The log probabilities of drawn tokens, by two models, and a mask."""
    return tensor(seed, n.B, n.T) - 3, tensor(seed + 1, n.B, n.T) - 3, answers_of(n)


@exercise("kl_loss", weight=2)
@few
@given(n=batches, seed=seeds)
def test_only_tokens_of_the_mask_change_the_kl_loss(learner, n, seed):
    """Where the mask is False, log probabilities may be any numbers, also NaN and infinite ones: loss and gradient stay the same, and theirs is 0."""
    now, fixed, mask = drawn_twice(n, seed)
    plain = gradients(learner.kl_loss, now.masked_fill(~mask, -3.0), fixed.masked_fill(~mask, -3.0), mask)
    odd = {name: gradients(learner.kl_loss, now.masked_fill(~mask, a), fixed.masked_fill(~mask, b), mask) for name, (a, b) in ODD.items()}
    shaped(plain.output, (), "the loss", torch.float32)
    slope = shaped(plain.inputs[0], (n.B, n.T), "the gradient of log_probs")
    holds(plain.output.isfinite() and slope.isfinite().all() and slope[mask].abs().max() > 1e-3, "the loss has no gradient where the mask is True")
    for name, got in odd.items():
        close(got.output, plain.output, f"the loss with {name} outside of the mask")
        close(got.inputs[0], slope * mask, f"the gradient of log_probs with {name} outside of the mask")


@exercise("kl_loss")
@few
@given(n=batches, seed=seeds)
def test_the_reference_gets_no_gradient(learner, n, seed):
    """The reference model is fixed, also if its log probabilities come with a graph. Only the policy gets a gradient, and what is float64 stays float64."""
    now, fixed, mask = (value.double() if value.is_floating_point() else value for value in drawn_twice(n, seed))
    found, half = gradients(learner.kl_loss, now, fixed, mask), learner.kl_loss(now.bfloat16(), fixed.bfloat16(), mask)
    shaped(found.output, (), "the loss of float64 log probabilities", torch.float64)
    shaped(half, (), "the loss of bfloat16 log probabilities", torch.bfloat16)
    slope = shaped(found.inputs[0], (n.B, n.T), "the gradient of log_probs")
    holds(slope.abs().max() > 1e-3, "log_probs should get a gradient")
    has_no_gradient(found, ["reference_log_probs"])


@exercise("kl_loss")
def test_without_a_token_there_is_no_kl(learner):
    """If the mask is False everywhere, the loss and its gradients are 0, and not NaN. An answer without a token changes nothing, and the arguments may be views."""
    now, fixed, mask = drawn_twice(sizes_of(4, 5), 11)
    mask[2] = False
    nothing = torch.zeros_like(mask)
    empty, fine = gradients(learner.kl_loss, now, fixed, nothing), gradients(learner.kl_loss, now, fixed, mask)
    others = [0, 1, 3]
    without, of_view = gradients(learner.kl_loss, now[others], fixed[others], mask[others]), learner.bring(of_views)(learner.kl_loss, now, fixed, mask)
    slope = shaped(fine.inputs[0], (4, 5), "the gradient of log_probs")
    holds(slope.abs().max() > 1e-3, "log_probs should get a gradient")
    with check:
        close(empty.output, torch.tensor(0.0), "the loss without any token")
    with check:
        close(empty.inputs[0], torch.zeros(4, 5), "the gradient of log_probs without any token")
    close(without.inputs[0], slope[others], "the gradient of log_probs without the answer that has no token")
    close(of_view, fine.output, "the loss of views")


# ---- asymmetric_policy_loss, and what sequence_policy_loss shares with it


def drawn(n, seed, spread=0.5):
    """log_probs, old_log_probs, advantages of both signs, and a mask."""
    old = -tensor(seed, n.B, n.T).abs() - 1
    advantages = tensor(seed + 2, n.B).abs() + 0.5
    advantages[::2] *= -1
    return old + spread * tensor(seed + 1, n.B, n.T), old, advantages, answers_of(n)


def token_losses(new, old, advantages, mask, low=0.2, high=0.28):
    """Each answer's losses, token by token."""
    rows = []
    for b, row in enumerate(mask.tolist()):
        worth, losses = float(advantages[b]), []
        for t, counts in enumerate(row):
            if counts:
                ratio = math.exp(float(new[b, t].double() - old[b, t].double()))
                losses.append(-min(ratio * worth, min(max(ratio, 1 - low), 1 + high) * worth))
        rows.append(losses)
    return rows


def averaged(rows, dtype, average="token", length=None):
    """The mean of the losses in one of the three ways."""
    every = [loss for row in rows for loss in row]
    means = [sum(row) / len(row) for row in rows if row]
    found = {
        "token": lambda: sum(every) / max(len(every), 1),
        "sequence": lambda: sum(means) / max(len(means), 1),
        "fixed": lambda: sum(every) / (len(rows) * length),
    }[average]()
    return torch.tensor(found, dtype=dtype)


AVERAGES = {"token": {}, "sequence": {"average": "sequence"}, "fixed": {"average": "fixed", "length": 12.5}}


def bounded(values, low=0.2, high=0.28, **average):
    return averaged(token_losses(*values, low, high), values[0].dtype, **average)


@exercise("asymmetric_policy_loss", weight=3)
@few
@given(n=batches, seed=seeds)
def test_the_smaller_one_of_two_products_counts(learner, n, seed):
    """A token's objective is the smaller one of ratio · advantage and clipped ratio · advantage; the loss is minus its mean over the tokens where the mask is True. The arguments may be views, and float64 stays float64."""
    cases = []
    for spread, dtype in ((0.05, torch.float32), (0.6, torch.float32), (0.6, torch.float64)):
        *numbers, mask = drawn(n, seed, spread)
        values = [*(each.to(dtype) for each in numbers), mask]
        cases.append((values, learner.asymmetric_policy_loss(*values)))
    cases.append((values, learner.bring(of_views)(learner.asymmetric_policy_loss, *values)))
    half = learner.asymmetric_policy_loss(*(each.bfloat16() for each in values[:3]), mask)
    for values, loss in cases:
        tol = 1e-4 if loss.dtype == torch.float32 else None
        close(loss, bounded(values), f"the loss with ratios up to {float((values[0] - values[1]).exp().max()):.2f}", tol=tol)
    shaped(half, (), "the loss of bfloat16 log probabilities", torch.bfloat16)


@exercise("asymmetric_policy_loss", weight=2)
@few
@given(n=batches, seed=seeds)
def test_each_direction_has_its_own_bound(learner, n, seed):
    """The clipped ratio is at least 1 - low and at most 1 + high, whatever both are: they may be equal, or either of them larger."""
    values = drawn(n, seed, 0.7)
    bounds = ((0.1, 0.5), (0.5, 0.1), (0.3, 0.3))
    got = {pair: learner.asymmetric_policy_loss(*values, low=pair[0], high=pair[1]) for pair in bounds}
    in_order = learner.asymmetric_policy_loss(*values, 0.1, 0.5)
    for (low, high), loss in got.items():
        close(loss, bounded(values, low, high), f"the loss with low = {low} and high = {high}", tol=1e-4)
    close(in_order, bounded(values, 0.1, 0.5), "the loss with 0.1 and 0.5 as fifth and sixth argument", tol=1e-4)


RATIOS = torch.tensor([0.4, 0.75, 0.9, 1.0, 1.24, 1.4, 3.0])  # 0.75 and 1.24 are on different sides of 0.2 and 0.28
ON_THE_WAY = torch.tensor([[1, 1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1, 1]])  # for a good answer, and for a bad one


@exercise("asymmetric_policy_loss", weight=3)
def test_the_gradient_is_zero_beyond_each_bound(learner):
    """A good answer's tokens are pushed up until the ratio is 1 + high, a bad one's down until it is 1 - low. Beyond that the gradient is exactly 0, and on the other side it is not."""
    old = torch.full((2, 7), -2.0)
    found = gradients(learner.asymmetric_policy_loss, old + RATIOS.log(), old, torch.tensor([3.0, -3.0]), torch.ones(2, 7, dtype=torch.bool))
    push = torch.tensor([[-3.0], [3.0]]) * RATIOS / 14 * math.cos(0.3)
    slope = shaped(found.inputs[0], (2, 7), "the gradient of log_probs")
    with check:
        close(slope[0], push[0] * ON_THE_WAY[0], "the gradient with the ratios 0.4, 0.75, 0.9, 1, 1.24, 1.4, 3 and advantage 3", tol=1e-4)
    with check:
        close(slope[1], push[1] * ON_THE_WAY[1], "the gradient with the ratios 0.4, 0.75, 0.9, 1, 1.24, 1.4, 3 and advantage -3", tol=1e-4)
    with check:
        same((slope[0, 5:] + 0.0).tolist(), [0.0, 0.0], "the gradient of the tokens with the ratios 1.4 and 3 and advantage 3")
    with check:
        same((slope[1, :2] + 0.0).tolist(), [0.0, 0.0], "the gradient of the tokens with the ratios 0.4 and 0.75 and advantage -3")


@exercise("asymmetric_policy_loss", weight=3)
@few
@given(n=batches, seed=seeds)
def test_the_loss_is_averaged_in_three_ways(learner, n, seed):
    """With "token" every token counts the same; with "sequence" each answer's mean counts the same, and an answer without tokens does not count; with "fixed" the sum of all tokens is divided by B · length."""
    new, old, advantages, mask = drawn(n, seed)
    mask[0] = False
    mask[1, 2:] = False
    values = new, old, advantages, mask
    cases = [*AVERAGES.values(), {"average": "token"}, {"average": "fixed", "length": 3}]
    got = [learner.asymmetric_policy_loss(*values, **case) for case in cases]
    for case, loss in zip(cases, got):
        close(loss, bounded(values, **case), f"the loss with {case or 'the default average'}", tol=1e-4)


@exercise("asymmetric_policy_loss", weight=2)
@few
@given(n=batches, seed=seeds)
def test_a_fixed_length_gives_every_token_the_same_weight(learner, n, seed):
    """While the model is as it was, every ratio is 1. With "fixed", each token's gradient is then minus its advantage over B · length, however long its own answer and the others are."""
    _, old, advantages, mask = drawn(n, seed)
    shorter, length = mask.clone(), 7.5
    shorter[0, 2:], shorter[1] = False, False
    found = {kept: gradients(learner.asymmetric_policy_loss, old, old, advantages, places, average="fixed", length=length) for kept, places in (("all", mask), ("some", shorter))}
    each = -advantages[:, None] / (n.B * length) * math.cos(0.3)
    close(found["all"].inputs[0], each * mask, "the gradient of log_probs")
    close(found["some"].inputs[0], each * shorter, "the gradient of log_probs after one answer has become shorter, and one empty")


@exercise("asymmetric_policy_loss", weight=2)
@few
@given(n=batches, seed=seeds)
def test_only_tokens_of_the_mask_change_the_loss(learner, n, seed):
    """Where the mask is False, log probabilities may be any numbers, also NaN and such whose ratio is infinite: the loss stays the same, with each average, and their gradient is 0."""
    new, old, advantages, mask = drawn(n, seed)
    cases = [(name, average) for name in ODD for average in AVERAGES]
    found = []
    for name, average in cases:
        odd = new.masked_fill(~mask, ODD[name][0]), old.masked_fill(~mask, ODD[name][1])
        found.append(gradients(learner.asymmetric_policy_loss, *odd, advantages, mask, **AVERAGES[average]))
    for (name, average), got in zip(cases, found):
        close(got.output, bounded((new, old, advantages, mask), **AVERAGES[average]), f"the loss with average = {average!r} and {name} outside of the mask", tol=1e-4)
        slope = shaped(got.inputs[0], (n.B, n.T), "the gradient of log_probs")
        close(slope * ~mask, torch.zeros(n.B, n.T), f"the gradient of log_probs outside of the mask, which are {name} there")
        holds(bool(slope[mask].isfinite().all() and slope[mask].abs().max() > 0), "the gradient inside of the mask should be finite, and not 0 everywhere")


@exercise("asymmetric_policy_loss")
@few
@given(n=batches, seed=seeds)
def test_old_log_probs_and_advantages_are_fixed(learner, n, seed):
    """old_log_probs and advantages get no gradient, with none of the averages, also if they come with a graph."""
    values = drawn(n, seed, 0.1)
    found = {average: gradients(learner.asymmetric_policy_loss, *values, **AVERAGES[average]) for average in AVERAGES}
    for got in found.values():
        holds(got.inputs[0] is not None and bool(got.inputs[0].abs().max() > 0), "log_probs get no gradient")
        has_no_gradient(got, ["old_log_probs", "advantages"])


@exercise("asymmetric_policy_loss")
def test_no_token_gives_the_loss_0(learner):
    """If the mask is False everywhere, the loss and its gradients are 0, and not NaN, with each average. One token alone is its own mean."""
    values = drawn(sizes_of(3, 5), 7)
    nothing, single = torch.zeros_like(values[3]), torch.zeros_like(values[3])
    single[1, 2] = True
    empty = {average: gradients(learner.asymmetric_policy_loss, *values[:3], nothing, **AVERAGES[average]) for average in AVERAGES}
    one = {average: learner.asymmetric_policy_loss(*values[:3], single, **AVERAGES[average]) for average in AVERAGES}
    for average, loss in one.items():
        close(loss, bounded((*values[:3], single), **AVERAGES[average]), f"the loss of a single token with average = {average!r}", tol=1e-4)
    for average, found in empty.items():
        close(found.output, torch.tensor(0.0), f"the loss without any token and average = {average!r}")
        close(found.inputs[0], torch.zeros(3, 5), f"the gradient of log_probs without any token and average = {average!r}")


@exercise("asymmetric_policy_loss")
def test_an_unknown_average_and_a_missing_length_are_refused(learner):
    """An average other than "token", "sequence" and "fixed" raises a ValueError that names it; "fixed" without a length above 0 raises one that names length."""
    values = drawn(sizes_of(3, 5), 8)
    fine = learner.asymmetric_policy_loss(*values, average="fixed", length=0.5)
    unknown = {average: recorded_call(lambda average=average: learner.asymmetric_policy_loss(*values, average=average, length=4)) for average in ("tokens", "mean")}
    lengths = {length: recorded_call(lambda length=length: learner.asymmetric_policy_loss(*values, average="fixed", length=length)) for length in (0, -3)}
    without = recorded_call(lambda: learner.asymmetric_policy_loss(*values, average="fixed"))
    for average, call in unknown.items():
        refuses(call, naming={"average": average}, because="there are only token, sequence and fixed")
    for length, call in lengths.items():
        refuses(call, naming={"length": length}, because="the fixed average divides by a length above 0")
    refuses(without, naming=("length",), because="the fixed average needs a length", example="length = {length}, but the fixed average needs one above 0")
    close(fine, bounded(values, average="fixed", length=0.5), "the loss with the fixed average and length = 0.5", tol=1e-4)


# ---- sequence_policy_loss


def of_answers(values, low=0.2, high=0.28):
    """The loss, answer by answer, from the product of its tokens' ratios."""
    new, old, advantages, mask = values
    losses = []
    for b, row in enumerate(mask.tolist()):
        ratios = [math.exp(float(new[b, t].double() - old[b, t].double())) for t, counts in enumerate(row) if counts]
        if ratios:
            ratio, worth = math.prod(ratios) ** (1 / len(ratios)), float(advantages[b])
            losses.append(-min(ratio * worth, min(max(ratio, 1 - low), 1 + high) * worth))
    return torch.tensor(sum(losses) / max(len(losses), 1), dtype=new.dtype)


def shifted(n, seed, spread):
    """As `drawn`, but an answer's tokens all move, so that the ratio of the answer moves too."""
    new, old, advantages, mask = drawn(n, seed, 0.3)
    directions = torch.tensor([1.0, 1.0, -1.0, -1.0])[: n.B]
    return new + spread * directions[:, None], old, advantages, mask


@exercise("sequence_policy_loss", weight=3)
@few
@given(n=batches, seed=seeds)
def test_an_answer_has_one_ratio(learner, n, seed):
    """An answer's ratio is the geometric mean of its tokens' ratios; its objective is the smaller one of ratio · advantage and clipped ratio · advantage, and the loss is minus the mean over the answers. The arguments may be views, and float64 stays float64."""
    cases = []
    for spread, dtype in ((0.0, torch.float32), (0.6, torch.float32), (-0.6, torch.float64)):
        *numbers, mask = shifted(n, seed, spread)
        values = [*(each.to(dtype) for each in numbers), mask]
        cases.append((values, learner.sequence_policy_loss(*values)))
    cases.append((values, learner.bring(of_views)(learner.sequence_policy_loss, *values)))
    half = learner.sequence_policy_loss(*(each.bfloat16() for each in values[:3]), mask)
    for values, loss in cases:
        tol = 1e-4 if loss.dtype == torch.float32 else None
        close(loss, of_answers(values), f"the loss with ratios of tokens up to {float((values[0] - values[1]).exp().max()):.2f}", tol=tol)
    shaped(half, (), "the loss of bfloat16 log probabilities", torch.bfloat16)


@exercise("sequence_policy_loss", weight=2)
def test_ratios_of_tokens_cancel(learner):
    """Three tokens with the ratios 2, 1 and 1/2 make an answer with the ratio 1, which is not clipped, although two of its tokens would be. A long answer and a short one count the same."""
    old = torch.full((2, 6), -3.0, dtype=torch.float64)
    new = old + torch.tensor([[2.0, 1.0, 0.5, 9.0, 9.0, 9.0], [1.1, 1.1, 1.1, 1.1, 1.1, 1.1]], dtype=torch.float64).log()
    advantages, mask = torch.tensor([5.0, -2.0], dtype=torch.float64), torch.tensor([[True] * 3 + [False] * 3, [True] * 6])
    found = gradients(learner.sequence_policy_loss, new, old, advantages, mask)
    slope = torch.tensor([[-5.0 / 3 / 2] * 3 + [0.0] * 3, [2.0 * 1.1 / 6 / 2] * 6], dtype=torch.float64) * math.cos(0.3)
    close(found.output, torch.tensor((-5.0 + 2.0 * 1.1) / 2, dtype=torch.float64), "the loss of answers with the ratios 1 and 1.1 and the advantages 5 and -2")
    close(found.inputs[0], slope, "the gradient of log_probs")


@exercise("sequence_policy_loss", weight=3)
def test_a_whole_answer_is_clipped_or_none_of_it(learner):
    """Beyond the bound all tokens of an answer have the gradient 0: of a good answer above 1 + high, of a bad one below 1 - low. On the other side, all of them have the same gradient, which is not 0."""
    ratios = torch.cat([RATIOS, RATIOS])
    old = torch.full((14, 4), -2.0)
    spread = torch.tensor([0.5, -0.5, 0.2, -0.2])  # the tokens' own ratios, around the answer's
    worth = torch.tensor([3.0] * 7 + [-3.0] * 7)
    found = gradients(learner.sequence_policy_loss, old + ratios.log()[:, None] + spread, old, worth, torch.ones(14, 4, dtype=torch.bool))
    slope = shaped(found.inputs[0], (14, 4), "the gradient of log_probs")
    expected = (-worth * ratios / 4 / 14 * math.cos(0.3) * ON_THE_WAY.flatten())[:, None].expand(14, 4)
    with check:
        close(slope[:7], expected[:7], "the gradient of good answers with the ratios 0.4, 0.75, 0.9, 1, 1.24, 1.4, 3", tol=1e-4)
    with check:
        close(slope[7:], expected[7:], "the gradient of bad answers with the ratios 0.4, 0.75, 0.9, 1, 1.24, 1.4, 3", tol=1e-4)
    with check:
        same(bool(slope[[5, 6, 7, 8]].any()), False, "whether a token of an answer that is clipped has a gradient")


@exercise("sequence_policy_loss", weight=2)
@few
@given(n=batches, seed=seeds)
def test_answers_have_a_bound_for_each_direction(learner, n, seed):
    """The clipped ratio of an answer is at least 1 - low and at most 1 + high, whatever both are."""
    up, down = shifted(n, seed, 0.6), shifted(n, seed, -0.6)
    cases = [(values, low, high) for values in (up, down) for low, high in ((0.05, 0.4), (0.4, 0.05), (3e-4, 4e-4))]
    got = [learner.sequence_policy_loss(*values, low=low, high=high) for values, low, high in cases]
    in_order = learner.sequence_policy_loss(*up, 0.05, 0.4)
    for (values, low, high), loss in zip(cases, got):
        close(loss, of_answers(values, low, high), f"the loss with low = {low} and high = {high}", tol=1e-4)
    close(in_order, of_answers(up, 0.05, 0.4), "the loss with 0.05 and 0.4 as fifth and sixth argument", tol=1e-4)


@exercise("sequence_policy_loss", weight=2)
@few
@given(n=batches, seed=seeds)
def test_only_tokens_of_the_mask_change_the_ratio_of_an_answer(learner, n, seed):
    """Where the mask is False, log probabilities may be any numbers, also NaN and infinite ones: the loss stays the same, and their gradient is 0."""
    new, old, advantages, mask = shifted(n, seed, 0.2)
    odd = {name: gradients(learner.sequence_policy_loss, new.masked_fill(~mask, a), old.masked_fill(~mask, b), advantages, mask) for name, (a, b) in ODD.items()}
    for name, got in odd.items():
        close(got.output, of_answers((new, old, advantages, mask)), f"the loss with {name} outside of the mask", tol=1e-4)
        slope = shaped(got.inputs[0], (n.B, n.T), "the gradient of log_probs")
        close(slope * ~mask, torch.zeros(n.B, n.T), f"the gradient of log_probs outside of the mask, which are {name} there")
        holds(bool(slope[mask].isfinite().all() and slope[mask].abs().max() > 0), "the gradient inside of the mask should be finite, and not 0 everywhere")


@exercise("sequence_policy_loss")
def test_answers_without_a_token_do_not_count(learner):
    """An answer without a token is in no mean, whatever its advantage is. One answer alone is its own mean; without any token, the loss and its gradients are 0, and not NaN."""
    new, old, advantages, mask = shifted(sizes_of(4, 6), 5, 0.2)
    mask[1], mask[2, 1:] = False, False
    mask[2, 0] = True
    advantages[1] = 1e3
    some = gradients(learner.sequence_policy_loss, new, old, advantages, mask)
    single = torch.zeros_like(mask)
    single[3, 1:3] = True
    one = learner.sequence_policy_loss(new, old, advantages, single)
    empty = gradients(learner.sequence_policy_loss, new, old, advantages, torch.zeros_like(mask))
    close(some.output, of_answers((new, old, advantages, mask)), "the loss of three answers with tokens and one without", tol=1e-4)
    close(one, of_answers((new, old, advantages, single)), "the loss of one answer with tokens and three without", tol=1e-4)
    slope = shaped(some.inputs[0], (4, 6), "the gradient of log_probs")
    holds(bool(slope.isfinite().all() and slope[mask].abs().max() > 0), "the gradient should be finite, and not 0 everywhere")
    with check:
        close(empty.output, torch.tensor(0.0), "the loss without any token")
    with check:
        close(empty.inputs[0], torch.zeros(4, 6), "the gradient of log_probs without any token")


@exercise("sequence_policy_loss")
@few
@given(n=batches, seed=seeds)
def test_only_log_probs_get_gradients(learner, n, seed):
    """old_log_probs and advantages are fixed numbers, also if they come with a graph."""
    found = gradients(learner.sequence_policy_loss, *drawn(n, seed, 0.1))
    holds(found.inputs[0] is not None and bool(found.inputs[0].abs().max() > 0), "log_probs get no gradient")
    has_no_gradient(found, ["old_log_probs", "advantages"])


# ---- truncated_weights


def weighed(train, rollout, cap):
    ratios = (train.double() - rollout.double()).exp()
    return torch.where(ratios > cap, cap, ratios).to(train.dtype)


@exercise("truncated_weights", weight=3)
@few
@given(n=batches, seed=seeds)
def test_a_weight_is_a_ratio_up_to_the_cap(learner, n, seed):
    """A weight is the token's probability in training over that when it was drawn, and at most cap; it may be as small as it is. The arguments may be views, and float64 stays float64."""
    train, rollout = tensor(seed, n.B, n.T, dtype=torch.float64) - 3, tensor(seed + 1, n.B, n.T, dtype=torch.float64) - 3
    caps = (2.0, 1.0, 0.5, 10)
    got = {cap: learner.truncated_weights(train, rollout, cap) for cap in caps}
    of_view = learner.bring(of_views)(learner.truncated_weights, train, rollout, 2.0)
    single, half = learner.truncated_weights(train.float(), rollout.float(), 2.0), learner.truncated_weights(train.bfloat16(), rollout.bfloat16(), 2.0)
    for cap, weights in got.items():
        close(weights, weighed(train, rollout, cap), f"the weights with cap = {cap}")
    close(of_view, weighed(train, rollout, 2.0), "the weights of views")
    close(single, weighed(train.float(), rollout.float(), 2.0), "the weights of float32 log probabilities")
    shaped(half, (n.B, n.T), "the weights of bfloat16 log probabilities", torch.bfloat16)


@exercise("truncated_weights", weight=2)
def test_weights_of_very_unlikely_tokens_are_finite(learner):
    """Log probabilities of any finite size give finite weights: equal ones give 1, a token that was very unlikely when it was drawn gives cap, and one that is very unlikely in training gives 0."""
    train = torch.tensor([[-1e4, -1.0, -1e4, -1e30, -3e38, 0.0]])
    rollout = torch.tensor([[-1e4, -1e4, -1.0, -1e30, -0.5, -3e38]])
    got = {cap: learner.truncated_weights(train, rollout, cap) for cap in (2.0, 1e6)}
    for cap, weights in got.items():
        close(weights, torch.tensor([[1.0, cap, 0.0, 1.0, 0.0, cap]]), f"the weights with cap = {cap}")


def carry_a_graph(truncated_weights, train, rollout, cap):
    """The weights if the first, and if the second log probabilities come with a graph, and whether they have one themselves."""
    attached = [truncated_weights(train.clone().requires_grad_() * 1.0, rollout, cap), truncated_weights(train, rollout.clone().requires_grad_() * 1.0, cap)]
    return [weights.detach() for weights in attached], [weights.requires_grad for weights in attached]


@exercise("truncated_weights", weight=2)
@few
@given(n=batches, seed=seeds)
def test_weights_are_numbers_without_a_graph(learner, n, seed):
    """The weights have no gradient, also if the log probabilities come with a graph: a weight says how much a token counts, and is not trained itself."""
    train, rollout = tensor(seed, n.B, n.T) - 3, tensor(seed + 1, n.B, n.T) - 3
    weights, attached = learner.bring(carry_a_graph)(learner.truncated_weights, train, rollout, 1.5)
    close(weights, [weighed(train, rollout, 1.5)] * 2, "the weights")
    same(attached, [False, False], "whether the weights need gradients, if those of training do, and if the others do")


@exercise("truncated_weights")
def test_the_cap_is_above_0(learner):
    """A cap that is not above 0 raises a ValueError that names it; a small one is fine."""
    train, rollout = torch.tensor([[-1.0, -2.0, -9.0]]), torch.tensor([[-1.5, -1.0, -1.0]])
    fine = learner.truncated_weights(train, rollout, 0.01)
    bad = {cap: recorded_call(lambda cap=cap: learner.truncated_weights(train, rollout, cap)) for cap in (0, -2.0)}
    for cap, call in bad.items():
        refuses(call, naming={"cap": cap}, because="a weight is above 0")
    close(fine, torch.tensor([[0.01, 0.01, math.exp(-8)]]), "the weights with cap = 0.01")
