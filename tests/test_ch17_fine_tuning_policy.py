"""Chapter 17, fourth part: rewards, advantages, and the loss of a policy gradient."""

from __future__ import annotations

import math

import torch
from grader.execution.proxy import gradients
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, same, shaped, sizes
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_layouts import of_views
from pytest_check import check
from strategies import distinct, seeds, tensor

few = settings(max_examples=3)

# ---- group_advantages


@exercise("group_advantages", weight=3)
@few
@given(n=distinct("groups", "size", groups=(2, 4), size=(3, 6)), seed=seeds)
def test_a_reward_is_compared_with_its_own_group(learner, n, seed):
    """An advantage is (reward - mean) / standard deviation of the group, with n - 1 as in torch.std; the groups are neighbours, and the order stays."""
    rows = tensor(seed, n.groups, n.size) * torch.arange(1.0, n.groups + 1)[:, None] + 5 * torch.arange(n.groups)[:, None]
    got = learner.group_advantages(rows.flatten(), n.size)
    expected = (rows - rows.mean(1, keepdim=True)) / rows.std(1, keepdim=True)
    close(got, expected.flatten(), "the advantages", tol=1e-3)  # up to 1e-4 in the divisor is fine


@exercise("group_advantages", weight=2)
@few
@given(n=distinct("groups", "size", groups=(2, 4), size=(3, 6)), seed=seeds)
def test_without_normalising_only_the_mean_is_subtracted(learner, n, seed):
    """With normalise=False, an advantage is the reward minus the mean of its group, divided by nothing; each group's advantages sum to 0."""
    rows = tensor(seed, n.groups, n.size, scale=3.0) + 5
    got = learner.group_advantages(rows.flatten(), n.size, normalise=False)
    close(got, (rows - rows.mean(1, keepdim=True)).flatten(), "the advantages")
    close(got.view(-1, n.size).sum(1), torch.zeros(n.groups), "the sum of each group's advantages", tol=1e-3)


@exercise("group_advantages", weight=3)
def test_a_group_without_differences_has_no_advantages(learner):
    """If all rewards of a group are equal, its advantages are 0, also where the computed mean is rounded; other groups are not affected."""
    for value, size in ((1.0, 4), (0.1, 7), (0.9, 3), (0.0, 5)):
        rewards = torch.cat([torch.full((size,), value), torch.arange(float(size)), torch.full((size,), -value)])
        for normalise in (True, False):
            got, alone = learner.group_advantages(rewards, size, normalise=normalise), learner.group_advantages(rewards[:size], size, normalise=normalise)
            middle = torch.arange(float(size)) - (size - 1) / 2
            middle = middle / torch.arange(float(size)).std() if normalise else middle
            shaped(got, (3 * size,), "the advantages")
            small = 1e-3 if normalise else 1e-6  # what rounding leaves, also with a small number in the divisor
            holds(not bool(got[:size].abs().max() > small) and not got[:size].isnan().any(), f"{size} rewards of {value} have advantages of up to {float(got[:size].abs().max()):.3g}; they should be 0")
            holds(not bool(alone.abs().max() > small) and not alone.isnan().any(), f"{size} rewards of {value} alone have advantages of up to {float(alone.abs().max()):.3g}; they should be 0")
            close(got[size : 2 * size], middle, f"the advantages of {size} different rewards beside a group of equal ones", tol=1e-3)
            holds(not bool(got[2 * size :].abs().max() > small), f"{size} rewards of {-value} should have advantages of 0")


@exercise("group_advantages")
def test_a_group_of_one_has_no_advantage(learner):
    """A group of one has nothing to compare with: its advantage is 0, and not NaN, with and without normalising."""
    rewards = torch.tensor([3.0, 1.0, 4.0])
    single = [learner.group_advantages(rewards, 1, normalise=normalise) for normalise in (True, False)]
    pair, near = (learner.group_advantages(torch.tensor(rewards), 2) for rewards in ([3.0, 1.0], [0.52, 0.5]))
    for found in single:
        close(found, torch.zeros(3), "the advantages of groups of one")
    close(pair, torch.tensor([1.0, -1.0]) / math.sqrt(2), "the advantages of the rewards 3 and 1", tol=1e-3)
    close(near, torch.tensor([1.0, -1.0]) / math.sqrt(2), "the advantages of the rewards 0.52 and 0.5", tol=1e-2)  # up to 1e-4 in the divisor is fine


LARGE = 1e6 * tensor(5, 6, dtype=torch.float64)  # beside them, 1e-4 in the divisor is nothing


@exercise("group_advantages")
def test_groups_must_divide_the_rewards(learner):
    """If group_size does not divide the number of rewards, a ValueError names group_size; float64 rewards stay float64."""
    rewards = torch.tensor([1.0, 0.0, 0.0, 1.0, 0.0, 0.0], dtype=torch.float64)
    fine, large = learner.group_advantages(rewards, 3, normalise=False), learner.group_advantages(LARGE, 3)
    half = learner.group_advantages(LARGE.bfloat16(), 3)
    for size in (4, 5):
        refuses(lambda size=size: learner.group_advantages(rewards, size), naming={"group_size": size}, because="6 rewards cannot be cut into such groups")
    close(fine, torch.tensor([2.0, -1.0, -1.0, 2.0, -1.0, -1.0], dtype=torch.float64) / 3, "the advantages")
    rows = LARGE.view(2, 3)
    expected = (rows - rows.mean(1, keepdim=True)) / rows.std(1, keepdim=True)
    close(large, expected.flatten(), "the advantages of large float64 rewards")
    shaped(half, (6,), "the advantages of bfloat16 rewards", torch.bfloat16)


# ---- policy_loss

batches = distinct("B", "T", B=(3, 4), T=(5, 7))


def drawn(n, seed, spread=0.5):
    """log_probs, old_log_probs, advantages of both signs, and a mask with answers of different lengths, which begin at different places."""
    old = -tensor(seed, n.B, n.T).abs() - 1
    new = old + spread * tensor(seed + 1, n.B, n.T)
    advantages = tensor(seed + 2, n.B).abs() + 0.5
    advantages[::2] *= -1
    steps = torch.arange(n.T)
    starts, stops = torch.arange(n.B) % 2, n.T - torch.arange(n.B) % 3
    return new, old, advantages, (steps >= starts[:, None]) & (steps < stops[:, None])


def clipped(new, old, advantages, mask, clip=0.2, kl=None, kl_weight=0.0, average="token"):
    """The loss, token by token, in float64."""
    rows = []
    for b, row in enumerate(mask.tolist()):
        rows.append([])
        for t, counts in enumerate(row):
            if counts:
                ratio, worth = math.exp(float(new[b, t].double() - old[b, t].double())), float(advantages[b])
                loss = -min(ratio * worth, min(max(ratio, 1 - clip), 1 + clip) * worth)
                rows[-1].append(loss + (kl_weight * float(kl[b, t]) if kl is not None else 0.0))
    if average == "sequence":
        rows = [[sum(row) / len(row)] for row in rows if row]
    every = [loss for row in rows for loss in row]
    return torch.tensor(sum(every) / max(len(every), 1), dtype=new.dtype)


@exercise("policy_loss", weight=3)
@few
@given(n=batches, seed=seeds)
def test_the_smaller_of_both_products_counts(learner, n, seed):
    """A token's objective is the smaller one of ratio · advantage and clipped ratio · advantage; the loss is minus its mean over the tokens where the mask is True. The arguments may be views."""
    cases = []
    for spread, dtype in ((0.05, torch.float32), (0.6, torch.float32), (0.6, torch.float64)):
        *numbers, mask = drawn(n, seed, spread)
        values = [*(each.to(dtype) for each in numbers), mask]
        cases.append((values, learner.policy_loss(*values)))
    cases.append((values, learner.bring(of_views)(learner.policy_loss, *values)))
    for values, loss in cases:
        tol = 1e-4 if loss.dtype == torch.float32 else None
        close(loss, clipped(*values), f"the loss with ratios up to {float((values[0] - values[1]).exp().max()):.2f}", tol=tol)


@exercise("policy_loss", weight=2)
@few
@given(n=batches, seed=seeds)
def test_clip_says_how_far_a_ratio_may_move(learner, n, seed):
    """The ratio is clipped to 1 - clip ... 1 + clip, whatever clip is."""
    values = drawn(n, seed, 0.6)
    got = {clip: learner.policy_loss(*values, clip=clip) for clip in (0.05, 0.4)}
    for clip, loss in got.items():
        close(loss, clipped(*values, clip), f"the loss with clip = {clip}", tol=1e-4)


@exercise("policy_loss", weight=3)
def test_the_gradient_is_zero_where_the_clip_decides(learner):
    """A good answer's tokens are pushed up until the ratio is 1 + clip, a bad one's down until it is 1 - clip. Beyond that the gradient is exactly 0, and on the other side it is not."""
    ratios = torch.tensor([0.5, 0.9, 1.0, 1.1, 2.0])
    old = torch.full((2, 5), -2.0)
    found = gradients(learner.policy_loss, old + ratios.log(), old, torch.tensor([3.0, -3.0]), torch.ones(2, 5, dtype=torch.bool))
    push = -3.0 * ratios / 10 * math.cos(0.3)
    expected = torch.stack([push * torch.tensor([1, 1, 1, 1, 0]), -push * torch.tensor([0, 1, 1, 1, 1])])
    close(found.inputs[0][0], expected[0], "the gradient with the ratios 0.5, 0.9, 1, 1.1, 2 and advantage 3", tol=1e-4)
    close(found.inputs[0][1], expected[1], "the gradient with the ratios 0.5, 0.9, 1, 1.1, 2 and advantage -3", tol=1e-4)
    with check:
        same(found.inputs[0][0, 4].item() + 0.0, 0.0, "the gradient of the token with ratio 2 and advantage 3")
    with check:
        same(found.inputs[0][1, 0].item() + 0.0, 0.0, "the gradient of the token with ratio 0.5 and advantage -3")


@exercise("policy_loss", weight=2)
@few
@given(n=batches, seed=seeds)
def test_the_first_step_is_the_plain_policy_gradient(learner, n, seed):
    """While the model is as it was, every ratio is 1: the loss is minus the mean advantage, and each token's gradient minus its advantage over the number of tokens."""
    _, old, advantages, mask = drawn(n, seed)
    found = gradients(learner.policy_loss, old, old, advantages, mask)
    each = advantages[:, None].expand(mask.shape) * mask / mask.sum()
    close(found.output, -each.sum(), "the loss", tol=1e-4)
    close(found.inputs[0], -each * math.cos(0.3), "the gradient of log_probs", tol=1e-4)


@exercise("policy_loss", weight=2)
@few
@given(n=batches, seed=seeds)
def test_what_is_outside_of_the_mask_has_no_effect(learner, n, seed):
    """Where the mask is False, log probabilities and KL may be any numbers, also such whose ratio is infinite: loss and gradient stay the same, and theirs is 0."""
    new, old, advantages, mask = drawn(n, seed)
    kl = tensor(seed + 3, n.B, n.T).abs()
    odd = torch.where(mask, new, 1e4), torch.where(mask, old, -1e4), advantages, mask
    found = {average: gradients(learner.policy_loss, *odd, kl=torch.where(mask, kl, 1e6), kl_weight=0.1, average=average) for average in ("token", "sequence")}
    for average, got in found.items():
        close(got.output, clipped(new, old, advantages, mask, 0.2, kl, 0.1, average), f"the loss with average = {average!r}", tol=1e-4)
        close(got.inputs[0] * ~mask, torch.zeros(n.B, n.T), "the gradient of log_probs outside of the mask")
        holds(bool(got.inputs[0][mask].abs().max() > 0), "the gradient is 0 inside of the mask too")


@exercise("policy_loss", weight=2)
@few
@given(n=batches, seed=seeds)
def test_tokens_or_answers_count_the_same(learner, n, seed):
    """With average="token" every token counts the same, so long answers count more; with "sequence" each answer's mean counts the same. An answer without tokens does not count."""
    new, old, advantages, mask = drawn(n, seed)
    mask[0] = False
    mask[1, 2:] = False
    got = {average: learner.policy_loss(new, old, advantages, mask, average=average) for average in ("token", "sequence")}
    for average, loss in got.items():
        close(loss, clipped(new, old, advantages, mask, average=average), f"the loss with average = {average!r}", tol=1e-4)


@exercise("policy_loss", weight=2)
@few
@given(n=batches, seed=seeds)
def test_the_kl_term_is_added_with_its_weight(learner, n, seed):
    """kl_weight · kl is added to each token's loss, not clipped and not multiplied by the advantage, and the gradient flows into kl; without kl the weight does nothing."""
    values, kl = drawn(n, seed, 0.6), tensor(seed + 3, n.B, n.T)  # k1 may be negative
    mask, got = values[3], {}
    for average in ("token", "sequence"):
        got[average] = learner.policy_loss(*values, kl=kl, kl_weight=0.3, average=average)
    nothing, alone = learner.policy_loss(*values, kl_weight=0.3), learner.policy_loss(*values, kl=kl)
    slope = learner.bring(slope_of_kl)(learner.policy_loss, *values, kl)
    for average, loss in got.items():
        close(loss, clipped(*values, 0.2, kl, 0.3, average), f"the loss with a KL term and average = {average!r}", tol=1e-4)
    close(nothing, clipped(*values), "the loss with kl_weight and without kl", tol=1e-4)
    close(alone, clipped(*values), "the loss with kl and the default kl_weight", tol=1e-4)
    close(slope, 0.3 * mask / mask.sum(), "the gradient of kl", tol=1e-4)


def slope_of_kl(policy_loss, new, old, advantages, mask, kl):
    leaf = kl.clone().requires_grad_()
    policy_loss(new, old, advantages, mask, kl=leaf, kl_weight=0.3).backward()
    return leaf.grad


@exercise("policy_loss")
@few
@given(n=batches, seed=seeds)
def test_only_the_new_log_probabilities_get_gradients(learner, n, seed):
    """old_log_probs and advantages are fixed numbers, also if they come with a graph."""
    new, old, advantages, mask = drawn(n, seed, 0.1)
    found = gradients(learner.policy_loss, new, old, advantages, mask)
    holds(found.inputs[0] is not None and bool(found.inputs[0].abs().max() > 0), "log_probs get no gradient")
    for name, gradient in zip(("old_log_probs", "advantages"), found.inputs[1:3]):
        holds(gradient is None or not gradient.any(), f"{name} should get no gradient")


@exercise("policy_loss")
def test_an_unknown_average_is_refused_and_no_tokens_give_0(learner):
    """An average other than "token" and "sequence" raises a ValueError that names it; if the mask is False everywhere, the loss and its gradients are 0, and not NaN. One token alone is its own mean."""
    values, averages = drawn(sizes_of(3, 5), 7), ("token", "sequence")
    nothing = torch.zeros_like(values[3])
    single = nothing.clone()
    single[1, 2] = True
    fine, empty = learner.policy_loss(*values), [gradients(learner.policy_loss, *values[:3], nothing, average=average) for average in averages]
    one = {average: learner.policy_loss(*values[:3], single, average=average) for average in averages}
    for average in ("tokens", "mean"):
        refuses(lambda average=average: learner.policy_loss(*values, average=average), naming={"average": average}, because="there are only token and sequence")
    close(fine, clipped(*values), "the loss", tol=1e-4)
    for found in empty:
        close(found.output, torch.tensor(0.0), "the loss without any token")
        close(found.inputs[0], torch.zeros(3, 5), "the gradient of log_probs without any token")
    for average, loss in one.items():
        close(loss, clipped(*values[:3], single), f"the loss of a single token with average = {average!r}", tol=1e-4)


def sizes_of(B, T):
    from types import SimpleNamespace

    sizes(B=B, T=T)
    return SimpleNamespace(B=B, T=T)


# ---- grade_answer


def graded(learner, cases):
    """Each (text, expected, grade) that is graded otherwise."""
    got = [learner.grade_answer(text, expected) for text, expected, _ in cases]
    for (text, expected, grade), mine in zip(cases, got):
        same(mine, grade, f"grade_answer({text!r}, {expected!r})")


numbers = st.integers(0, 999)


@exercise("grade_answer", weight=2)
@given(first=numbers, second=st.integers(1000, 9999))
def test_the_last_number_is_the_answer(learner, first, second):
    """The last number in the text counts, wherever it stands: 1.0 if it is the expected one, else 0.0, also without a number."""
    sizes(first=first, second=second)
    both = f"{first} and then {second}."
    graded(learner, [
        (both, second, 1.0), (both, first, 0.0), (f"{second}", second, 1.0), (f"so x={first}, at last", first, 1.0),
        (f"{second} = {first}", second, 0.0), (f"about {first}kg", first, 1.0), ("no number at all", first, 0.0), ("", 0, 0.0),
        (f"It is {first}.\nDoes this help?", first, 1.0), (f"{first} = x", first, 1.0),
    ])  # fmt: skip


@exercise("grade_answer", weight=2)
def test_signs_belong_to_the_number(learner):
    """A sign belongs to the number behind it, unless a letter, a digit or a closing bracket stands directly before the sign."""
    graded(learner, [
        ("the sum is -3", -3, 1.0), ("the sum is -3", 3, 0.0), ("(-3)", -3, 1.0), ("x = +5", 5, 1.0), ("-0.5", -0.5, 1.0),
        ("10-3", 3, 1.0), ("10-3", -3, 0.0), ("x-3", 3, 1.0), ("(10)-3", 3, 1.0), ("[10]-3", 3, 1.0), ("x^{10}-3", 3, 1.0), ("5 - 3", 3, 1.0), ("7+5=-12", -12, 1.0), ("-7", 7, 0.0),
    ])  # fmt: skip


@exercise("grade_answer", weight=2)
def test_decimals_and_groups_of_thousands(learner):
    """12.5 and 1,234,567.5 are one number each; 1, 2, 3 are three; a full stop at the end belongs to the sentence; a group has exactly three digits."""
    graded(learner, [
        ("It is 12.5 m.", 12.5, 1.0), ("12.5", 5, 0.0), ("12.4", 12, 0.0), ("12.6", 13, 0.0), ("It is 42.", 42, 1.0), ("1,234", 1234, 1.0), ("1,234", 234, 0.0),
        ("$1,234,567.5!", 1234567.5, 1.0), ("1, 2, 3", 3, 1.0), ("4,5", 5, 1.0), ("12,345", 12345, 1.0), ("1,2345", 2345, 1.0),
        ("-1,000", -1000, 1.0), ("2.50", 2.5, 1.0), ("007", 7, 1.0), ("1000", 1000, 1.0), ("4.", 4, 1.0), (".5", 5, 1.0), (".5", 0.5, 0.0),
    ])  # fmt: skip


@exercise("grade_answer", weight=2)
def test_fractions(learner):
    """A fraction of two numbers is one number, with a sign in front of it or without; a denominator of 0 is no answer, and no error."""
    graded(learner, [
        ("3/4", 0.75, 1.0), ("3/4", 4, 0.0), ("so it is -1/2.", -0.5, 1.0), ("6/3", 2, 1.0), ("1,000/4", 250, 1.0), ("1.5/3", 0.5, 1.0),
        ("1/3", 1 / 3, 1.0), ("1/0", 1, 0.0), ("1/0", 0, 0.0), ("0/5", 0, 1.0),
        ("3 / 4", 0.75, 0.0), ("3 / 4", 4, 1.0), ("3/ 4", 4, 1.0), ("5 or 1/0", 5, 0.0), ("1/0.0", 1, 0.0), ("5/1,000", 0.005, 1.0),
    ])  # fmt: skip


@exercise("grade_answer")
def test_the_expected_number_may_be_a_text(learner):
    """`expected` is a number, or a text whose last number is meant, in all the forms that an answer may have."""
    graded(learner, [
        ("0.75", "3/4", 1.0), ("3/4", "0.75", 1.0), ("1234", "1,234", 1.0), ("the answer is 5", "#### 5", 1.0), ("5", "-5", 0.0), ("2", "2.0", 1.0), ("0.1", 0.1, 1.0),
        ("none", "no number", 0.0), ("0", "no number", 0.0), ("0.333", "1/3", 0.0), ("1,000,001", "1,000,000", 0.0),
    ])  # fmt: skip


@exercise("grade_answer", weight=2)
def test_nothing_is_computed_and_no_text_raises_an_error(learner):
    """Texts are read, never executed: the last number of 3 * 4 is 4. Very long numbers, brackets and odd characters raise no error."""
    long = "9" * 5000
    graded(learner, [
        ("3 * 4", 12, 0.0), ("3 * 4", 4, 1.0), ("2**3", 8, 0.0), ("int('7')+1", 8, 0.0), ("10 // 3", 3, 1.0), (long, 9, 0.0), (f"{long} is large, 8 is not", 8, 1.0),
        ("))((//--,,..", 0, 0.0), ("½ \x00 �", 0.5, 0.0), ("x²", 5, 0.0), ("-", 0, 0.0), ("1" + ",000" * 200, 1, 0.0),
    ])  # fmt: skip
