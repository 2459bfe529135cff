"""Chapter 26's rewards and losses against torch's divergences, chapter 17, and the formulas that TRL and papers publish."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import Categorical, kl_divergence

B, T, V = 4, 6, 11
double = torch.float64
MASK = torch.arange(T) < torch.tensor([6, 3, 5, 1])[:, None]


def drawn(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=double)


def agree(mine, theirs):
    torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)


def test_the_expected_gradient_of_the_kl_loss_is_that_of_torchs_divergence(ours):
    logits, fixed = drawn(1, V).requires_grad_(), Categorical(logits=drawn(2, V))
    (theirs,) = torch.autograd.grad(kl_divergence(Categorical(logits=logits), fixed), logits)
    policy, one = Categorical(logits=logits), torch.ones(1, 1, dtype=torch.bool)
    tokens = torch.arange(V)[:, None, None]
    losses = torch.stack([ours.kl_loss(policy.log_prob(token), fixed.log_prob(token), one) for token in tokens])
    (mine,) = torch.autograd.grad((policy.probs.detach() * losses).sum(), logits)
    agree(mine, theirs)


def test_advantages_are_those_of_rloo(ours):
    """TRL: the rewards have a row for each answer of a group; the baseline is (sum - own reward) / (k - 1)."""
    rewards = drawn(3, 5, 3)  # (k, groups)
    theirs = rewards - (rewards.sum(0) - rewards) / (5 - 1)
    agree(ours.leave_one_out_advantages(rewards.T.flatten(), 5), theirs.T.flatten())


def test_informative_groups_are_those_that_dapo_keeps(ours):
    """verl keeps a prompt if the standard deviation of its rewards is above 0; it has no rounding with rewards of 0 and 1."""
    rewards = (drawn(4, 40, 3) > 0).to(double)
    kept = rewards.std(dim=1) > 0
    assert 0 < kept.sum() < 40
    assert torch.equal(ours.informative_groups(rewards.flatten(), 3), kept[:, None].expand(40, 3).flatten())


def test_the_penalty_is_dapos_soft_overlong_punishment(ours):
    """DAPO, equation 13, with L_max = hard and L_cache = hard - soft."""
    for length in range(80):
        soft, hard = 30, 50
        cache = hard - soft
        theirs = 0.0 if length <= hard - cache else ((hard - cache) - length) / cache if length <= hard else -1.0
        torch.testing.assert_close(ours.long_answer_penalty(torch.tensor([length]), soft, hard), torch.tensor([theirs]))


@pytest.mark.parametrize("average", ["token", "sequence"])
def test_with_equal_bounds_it_is_chapter_17s_policy_loss(ours, average):
    new, old, worth = -drawn(5, B, T).abs(), -drawn(6, B, T).abs(), drawn(7, B)
    mine = ours.asymmetric_policy_loss(new, old, worth, MASK, 0.2, 0.2, average)
    agree(mine, ours.policy_loss(new, old, worth, MASK, clip=0.2, average=average))


def of_trl(log_ratio, worth, low, high):
    """GRPOTrainer: the loss of each token."""
    coef_1 = torch.exp(log_ratio)
    coef_2 = torch.clamp(coef_1, 1 - low, 1 + high)
    return -torch.min(coef_1 * worth[:, None], coef_2 * worth[:, None])


def test_the_averages_are_those_of_trl(ours):
    """loss_type="bnpo" averages over tokens, "grpo" over answers, and "dr_grpo" divides by B · max_completion_length."""
    new, old, worth = -drawn(8, B, T).abs(), -drawn(9, B, T).abs(), drawn(10, B)
    loss = of_trl(new - old, worth, 0.2, 0.28)
    agree(ours.asymmetric_policy_loss(new, old, worth, MASK), (loss * MASK).sum() / MASK.sum())
    agree(ours.asymmetric_policy_loss(new, old, worth, MASK, average="sequence"), ((loss * MASK).sum(-1) / MASK.sum(-1)).mean())
    agree(ours.asymmetric_policy_loss(new, old, worth, MASK, average="fixed", length=9), (loss * MASK).sum() / (loss.size(0) * 9))


def test_the_sequence_loss_is_gspo(ours):
    """TRL's importance_sampling_level="sequence": every token of an answer has the answer's ratio."""
    new, old, worth = -drawn(11, B, T).abs(), -drawn(12, B, T).abs(), drawn(13, B)
    log_ratio = ((new - old) * MASK).sum(-1) / MASK.sum(-1).clamp(min=1.0)
    loss = of_trl(log_ratio.unsqueeze(-1), worth, 3e-4, 4e-4).expand(B, T)
    agree(ours.sequence_policy_loss(new, old, worth, MASK, 3e-4, 4e-4), ((loss * MASK).sum(-1) / MASK.sum(-1)).mean())


def test_weights_are_those_of_truncated_importance_sampling(ours):
    """TRL with vLLM: exp of the difference of the log probabilities, clamped at vllm_importance_sampling_cap."""
    train, rollout = -drawn(14, B, T).abs(), -drawn(15, B, T).abs()
    agree(ours.truncated_weights(train, rollout, 2.0), torch.clamp(torch.exp(train - rollout), max=2.0))
