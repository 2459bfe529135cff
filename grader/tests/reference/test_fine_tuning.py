"""Chapter 17's reference against torch and transformers, and against the formulas that TRL publishes, in float64."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from transformers import LlamaConfig, LlamaForCausalLM

B, T, V = 3, 6, 11
double = torch.float64


def drawn(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=double)


def agree(mine, theirs):
    torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)


def test_a_merged_adapter_is_torchs_linear_layer(ours):
    linear = torch.nn.Linear(5, 4, dtype=double)
    lora, x = ours.LoRALinear(linear, 2, 6.0), drawn(1, B, 5)
    with torch.no_grad():
        lora.B.copy_(drawn(2, 4, 2))
    agree(lora(x), F.linear(x, linear.weight + 3.0 * lora.B @ lora.A, linear.bias))
    agree(lora.merged()(x), lora(x))


def test_a_log_probability_is_minus_torchs_cross_entropy(ours):
    logits, targets = drawn(3, B, T, V), torch.randint(0, V, (B, T), generator=torch.Generator().manual_seed(4))
    targets[0, :3], targets[2, 4:] = -100, -100
    theirs = F.cross_entropy(logits.transpose(1, 2), targets, reduction="none").sum(dim=1)
    agree(ours.sequence_log_prob(logits, targets), -theirs)


def test_dpo_is_the_sigmoid_loss_of_trl(ours):
    values, beta = [drawn(seed, 5) - 20 for seed in range(4)], 0.3
    log_ratios = (values[0] - values[1]) - (values[2] - values[3])
    loss, chosen, rejected = ours.dpo_loss(*values, beta)
    agree(loss, -F.logsigmoid(beta * log_ratios).mean())
    agree(chosen - rejected, beta * log_ratios)
    agree(ours.reward_loss(chosen, rejected), F.binary_cross_entropy_with_logits(chosen - rejected, torch.ones(5, dtype=double)))


@pytest.mark.parametrize("kind", ["k1", "k3"])
def test_the_expected_estimate_is_torchs_kl_divergence(ours, kind):
    policy, fixed = (torch.distributions.Categorical(logits=drawn(seed, V)) for seed in (5, 6))
    tokens = torch.arange(V)
    estimates = ours.kl_estimate(policy.log_prob(tokens), fixed.log_prob(tokens), kind)
    agree((policy.probs * estimates).sum(), torch.distributions.kl_divergence(policy, fixed))


def test_the_policy_loss_is_that_of_grpo(ours):
    """TRL: loss_type="bnpo" averages over tokens, and "grpo" over each answer first."""
    new, old, reference = (-drawn(seed, 4, T).abs() for seed in (7, 8, 9))
    rewards, mask = drawn(10, 4), torch.arange(T) < torch.tensor([6, 3, 5, 1])[:, None]
    grouped = rewards.view(2, 2)
    advantages = ((grouped - grouped.mean(1, keepdim=True)) / grouped.std(1, keepdim=True)).flatten()
    agree(ours.group_advantages(rewards, 2), advantages)
    kl = torch.exp(reference - new) - (reference - new) - 1
    agree(ours.kl_estimate(new, reference), kl)
    ratio = torch.exp(new - old)
    tokens = -torch.min(ratio * advantages[:, None], torch.clamp(ratio, 0.8, 1.2) * advantages[:, None]) + 0.04 * kl
    arguments = {"clip": 0.2, "kl": kl, "kl_weight": 0.04}
    agree(ours.policy_loss(new, old, advantages, mask, **arguments), (tokens * mask).sum() / mask.sum())
    by_answer = ((tokens * mask).sum(1) / mask.sum(1)).mean()
    agree(ours.policy_loss(new, old, advantages, mask, **arguments, average="sequence"), by_answer)


def test_packed_rows_give_transformers_the_logits_of_each_text_alone(ours):
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=V, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1
    )
    config._attn_implementation = "eager"
    model = LlamaForCausalLM(config).eval().double()
    texts = [[1, 2, 3, 4], [5, 6, 7], [8, 9], [10]]
    ids, targets, positions, mask = ours.pack(texts, 5, 0)
    with torch.no_grad():
        hidden = torch.zeros(mask.shape, dtype=double).masked_fill(~mask, torch.finfo(double).min)[:, None]
        packed = model(ids, attention_mask=hidden, position_ids=positions).logits
        alone = [model(torch.tensor([text])).logits[0] for text in texts]
        places = [(0, 0), (1, 0), (1, 3), (0, 4)]
        for (row, start), text, logits in zip(places, texts, alone):
            torch.testing.assert_close(packed[row, start : start + len(text)], logits, rtol=1e-6, atol=1e-6)
        kept = targets >= 0
        loss = F.cross_entropy(packed[kept], targets[kept])
        theirs = torch.cat([F.cross_entropy(logits[:-1], torch.tensor(text[1:], dtype=torch.int64), reduction="none") for logits, text in zip(alone, texts)])
        torch.testing.assert_close(loss, theirs.mean(), rtol=1e-6, atol=1e-6)
