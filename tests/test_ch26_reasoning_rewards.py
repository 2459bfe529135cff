"""Chapter 26, first part: advantages without a bias, groups that can teach something, and a penalty for length."""

from __future__ import annotations

import torch
from grader.runner.marks import exercise
from grader.verdict.comparing import close, refuses, same, shaped, sizes
from hypothesis import example, given, settings
from hypothesis import strategies as st
from strategies import at, distinct, seeds, tensor

few = settings(max_examples=3)
groups_of = distinct("groups", "size", groups=(2, 4), size=(3, 6))


# ---- leave_one_out_advantages


def others_left_out(rows):
    """For each reward, the reward minus the mean of the others in its row, one by one."""
    found = []
    for row in rows.tolist():
        for i, reward in enumerate(row):
            others = row[:i] + row[i + 1 :]
            found.append(reward - sum(others) / len(others))
    return torch.tensor(found, dtype=rows.dtype)


@exercise("leave_one_out_advantages", weight=3)
@few
@given(n=groups_of, seed=seeds)
def test_a_reward_is_compared_with_the_others_of_its_group(learner, n, seed):
    """An advantage is the reward minus the mean of the group's other rewards; a group's rewards are neighbours, and the order stays. The rewards may be a view."""
    rows = tensor(seed, n.groups, n.size) + 3 * torch.arange(n.groups)[:, None]
    column = torch.stack([rows.flatten(), torch.zeros(n.groups * n.size)], dim=1)[:, 0]
    got, of_view = learner.leave_one_out_advantages(rows.flatten(), n.size), learner.leave_one_out_advantages(column, n.size)
    close(got, others_left_out(rows), "the advantages")
    close(of_view, others_left_out(rows), "the advantages of a column of a matrix")


@exercise("leave_one_out_advantages", weight=3)
@few
@given(size=st.integers(2, 4), seed=seeds)
@example(size=3, seed=0)
def test_the_expected_gradient_is_the_true_one(learner, size, seed):
    """Three answers are possible. Averaged over all groups that can be drawn, each as often as it is, the mean of advantage · gradient of log p is the gradient of the expected reward. With the group's own mean it would be (n - 1) / n of that. More reward for all of them changes no advantage."""
    answers = 3
    sizes(group_size=size, answers=answers)
    p, reward = tensor(seed, answers, dtype=torch.float64).softmax(0), tensor(seed + 1, answers, scale=2.0, dtype=torch.float64) + 1
    drawn = torch.cartesian_prod(*[torch.arange(answers)] * size)  # every group, (answers ** size, size)
    got, raised = (learner.leave_one_out_advantages(rewards, size) for rewards in (reward[drawn].flatten(), reward[drawn].flatten() + 4))
    found = shaped(got, (drawn.numel(),), "the advantages", torch.float64)
    slopes = torch.eye(answers, dtype=torch.float64)[drawn] - p  # the gradient of log p by the logits, for each answer drawn
    estimates = (found.view(-1, size, 1) * slopes).mean(dim=1)
    close((p[drawn].prod(dim=1)[:, None] * estimates).sum(dim=0), p * (reward - (p * reward).sum()), "the expected gradient")
    close(raised, found, "the advantages after 4 has been added to all rewards")


@exercise("leave_one_out_advantages", weight=2)
def test_advantages_grow_with_the_rewards(learner):
    """Nothing is divided by a standard deviation: rewards that are a hundred times as large have advantages that are, too. Equal rewards have the advantage 0. float64 rewards stay float64."""
    rewards = torch.tensor([1.0, 0.0, 0.0, 0.0, 2.0, 2.0, 2.0, 2.0], dtype=torch.float64)
    small, large = learner.leave_one_out_advantages(rewards, 4), learner.leave_one_out_advantages(100 * rewards, 4)
    pairs, half = learner.leave_one_out_advantages(rewards + 1e-7, 2), learner.leave_one_out_advantages(rewards.bfloat16(), 4)
    expected = torch.tensor([3.0, -1.0, -1.0, -1.0, 0.0, 0.0, 0.0, 0.0], dtype=torch.float64) / 3
    close(small, expected, "the advantages of 1, 0, 0, 0 and of four rewards of 2")
    close(large, 100 * expected, "the advantages of 100, 0, 0, 0 and of four rewards of 200")
    close(pairs, torch.tensor([1.0, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], dtype=torch.float64), "the advantages in pairs")
    shaped(half, (8,), "the advantages of bfloat16 rewards", torch.bfloat16)


@exercise("leave_one_out_advantages")
def test_a_group_needs_others(learner):
    """If group_size is below 2 or does not divide the number of rewards, a ValueError names group_size."""
    rewards = torch.tensor([4.0, 1.0, 1.0, 0.0, 0.0, 3.0])
    fine, one_group = learner.leave_one_out_advantages(rewards, 3), learner.leave_one_out_advantages(rewards, 6)
    for size in (4, 5, 12):
        refuses(lambda size=size: learner.leave_one_out_advantages(rewards, size), naming={"group_size": size}, because=f"6 rewards cannot be cut into groups of {size}")
    for size in (1, 0, -2):
        refuses(lambda size=size: learner.leave_one_out_advantages(rewards, size), naming={"group_size": size}, because="such a group has no others")
    close(fine, torch.tensor([3.0, -1.5, -1.5, -1.5, -1.5, 3.0]), "the advantages in groups of three")
    close(one_group, others_left_out(rewards[None]), "the advantages in one group of six")


# ---- informative_groups


@exercise("informative_groups", weight=3)
@few
@given(n=groups_of, seed=seeds)
def test_every_answer_has_the_result_of_its_group(learner, n, seed):
    """All answers of a group with different rewards are True, all of a group with equal rewards are False, whether these are 1, 0 or another number. The rewards may be a view."""
    rows = tensor(seed, n.groups + 3, n.size)
    rows[0], rows[2], rows[-1] = 0.0, 1.0, -0.5
    expected = torch.ones(n.groups + 3, dtype=torch.bool)
    expected[[0, 2, -1]] = False
    column = torch.stack([rows.flatten(), torch.zeros(rows.numel())], dim=1)[:, 0]
    got, of_view = learner.informative_groups(rows.flatten(), n.size), learner.informative_groups(column, n.size)
    same(got, expected.repeat_interleave(n.size), "which answers are in a group whose rewards differ")
    same(of_view, expected.repeat_interleave(n.size), "the result for a column of a matrix")


@exercise("informative_groups", weight=2)
@few
@given(size=st.integers(3, 5), double=st.booleans())
@example(size=4, double=False)
def test_one_other_reward_is_enough(learner, size, double):
    """A group is True if only one reward is another one, wherever it stands, better or worse: also if the rewards sum to 0, and if all are below 0."""
    sizes(group_size=size)
    rows = [torch.full((size,), value) for value in (0.0, 1.0, -1.0)]
    for place in range(size):
        for usual, other in ((0.0, 1.0), (1.0, 0.0), (-1.0, size - 1.0), (-2.0, -3.0)):
            row = torch.full((size,), usual)
            row[place] = other
            rows.append(row)
    rewards = torch.cat(rows).to(torch.float64 if double else torch.float32)
    expected = torch.tensor([False] * 3 + [True] * (len(rows) - 3))
    got = learner.informative_groups(rewards, size)
    same(got, expected.repeat_interleave(size), "which answers are in a group whose rewards differ")


@exercise("informative_groups", weight=2)
def test_rounding_makes_no_difference(learner):
    """Seven rewards of 0.1 are equal, although their computed mean is another number. Rewards that differ in the last digit differ, in float32 and in float64."""
    cases = [(dtype, value, size) for dtype in (torch.float32, torch.float64) for value, size in ((0.1, 7), (0.9, 3), (0.7, 6), (1e6 + 0.1, 5))]
    small = torch.tensor([0.5, 0.5, 0.50003, 0.5, 0.5, 0.5])
    got, alone, small_difference = [], [], learner.informative_groups(small, 3)
    for dtype, value, size in cases:
        rows = torch.full((2, size), value, dtype=dtype)
        rows[1, -1] = torch.nextafter(rows[1, -1], torch.tensor(torch.inf, dtype=dtype))
        got.append(learner.informative_groups(rows.flatten(), size))
        alone.append([learner.informative_groups(row, size) for row in rows])
    same(small_difference, torch.tensor([True] * 3 + [False] * 3), "the result for 0.5, 0.5, 0.50003, and for three rewards of 0.5")
    for (dtype, value, size), both, one_by_one in zip(cases, got, alone):
        what = f"{size} rewards of {value} in {str(dtype).removeprefix('torch.')}"
        same(both, torch.tensor([False, True]).repeat_interleave(size), f"the result for {what}, and for {size} of which one is a little larger")
        same(one_by_one[0], torch.zeros(size, dtype=torch.bool), f"the result for {what} alone")
        same(one_by_one[1], torch.ones(size, dtype=torch.bool), f"the result for {what}, of which one is a little larger, alone")


@exercise("informative_groups")
def test_groups_of_one_do_not_differ(learner):
    """A group of one has no differences, so it is False. If group_size is below 1 or does not divide the number of rewards, a ValueError names group_size."""
    rewards = torch.tensor([1.0, 0.0, 2.0, 2.0, 0.0, 0.0])
    ones, pairs, all_of_them = (learner.informative_groups(rewards, size) for size in (1, 2, 6))
    for size in (4, 5, 12):
        refuses(lambda size=size: learner.informative_groups(rewards, size), naming={"group_size": size}, because=f"6 rewards cannot be cut into groups of {size}")
    for size in (0, -3):
        refuses(lambda size=size: learner.informative_groups(rewards, size), naming={"group_size": size}, because="a group has at least one reward")
    same(ones, torch.zeros(6, dtype=torch.bool), "the result for groups of one")
    same(pairs, torch.tensor([True, True, False, False, False, False]), "the result for pairs")
    same(all_of_them, torch.ones(6, dtype=torch.bool), "the result for one group of six")


# ---- long_answer_penalty

limits = distinct("soft", "hard", soft=(3, 9), hard=(13, 40))


@exercise("long_answer_penalty", weight=3)
@few
@given(n=limits)
@example(n=at(soft=4, hard=14))
def test_the_penalty_is_a_line_between_two_limits(learner, n):
    """The penalty is 0 up to soft, -1 from hard on, and between them it falls by the same amount for each token. Lengths may be whole numbers or floats, in any order; the result is float32."""
    lengths = torch.arange(2 * n.hard).flip(0)
    kinds = (torch.int64, torch.int32, torch.float32, torch.float64)
    got = {kind: learner.long_answer_penalty(lengths.to(kind), n.soft, n.hard) for kind in kinds}
    of_view = learner.long_answer_penalty(torch.stack([lengths, lengths], dim=1)[:, 0], n.soft, n.hard)
    steps = [-min(max(length - n.soft, 0), n.hard - n.soft) / (n.hard - n.soft) for length in lengths.tolist()]
    for kind, penalty in got.items():
        close(penalty, torch.tensor(steps), f"the penalty of {str(kind).removeprefix('torch.')} lengths from {2 * n.hard - 1} down to 0")
    close(of_view, torch.tensor(steps), "the penalty of a column of a matrix")


@exercise("long_answer_penalty", weight=2)
@few
@given(soft=st.integers(0, 500), width=st.integers(1, 40))
@example(soft=0, width=4)
@example(soft=12, width=1)
def test_the_ends_of_the_line_are_exact(learner, soft, width):
    """At soft tokens nothing is lost, at hard tokens all of it, and halfway half. The limits may be next to each other, and soft may be 0."""
    hard = soft + 2 * width
    sizes(soft=soft, hard=hard)
    got = learner.long_answer_penalty(torch.tensor([soft, hard, soft + width, hard + 1, 10 * hard]), soft, hard)
    near = learner.long_answer_penalty(torch.tensor([soft + 1, soft]), soft, soft + 1)
    close(got, torch.tensor([0.0, -1.0, -0.5, -1.0, -1.0]), "the penalty at soft, at hard, halfway, and at two lengths beyond")
    close(near, torch.tensor([-1.0, 0.0]), "the penalty at hard and at soft, if hard is soft + 1")


@exercise("long_answer_penalty")
def test_soft_must_be_below_hard(learner):
    """If soft is not below hard, a ValueError names both, also if the lengths lie outside of them."""
    lengths = torch.tensor([5, 15, 25])
    fine = learner.long_answer_penalty(lengths, 10, 20)
    for soft, hard in ((20, 10), (16, 16), (30, 29)):
        refuses(lambda soft=soft, hard=hard: learner.long_answer_penalty(lengths, soft, hard), naming={"soft": soft, "hard": hard}, because="soft must be below hard")
    close(fine, torch.tensor([0.0, -0.5, -1.0]), "the penalty with soft = 10 and hard = 20")
