"""Chapter 26's entropy, distillation and votes against torch, and against the loss that TRL publishes, in float64."""

from __future__ import annotations

from collections import Counter
from statistics import mode

import pytest
import torch
import torch.nn.functional as F
from torch.distributions import Binomial, Categorical, Multinomial, kl_divergence
from transformers import LlamaConfig, LlamaForCausalLM

B, T, V = 3, 6, 11
double = torch.float64
MASK = torch.arange(T) < torch.tensor([6, 3, 5])[:, None]


def drawn(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=double)


def agree(mine, theirs):
    torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)


def test_the_entropy_is_that_of_torchs_categorical(ours):
    logits = drawn(1, B, T, V)
    agree(ours.entropy(logits, MASK), Categorical(logits=logits).entropy()[MASK].mean())
    logits[..., 2] = -torch.inf
    agree(ours.entropy(logits, MASK), Categorical(logits=logits).entropy()[MASK].mean())


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_forward_and_reverse_are_torchs_divergences(ours, temperature):
    student, teacher = drawn(2, B, T, V), drawn(3, B, T, V)
    s, t = (Categorical(logits=logits / temperature) for logits in (student, teacher))
    for kind, divergence in (("forward", kl_divergence(t, s)), ("reverse", kl_divergence(s, t))):
        agree(ours.distillation_loss(student, teacher, MASK, kind, temperature), temperature**2 * divergence[MASK].mean())
    everything = torch.ones(1, B * T, dtype=torch.bool)
    flat = [logits.view(1, B * T, V) for logits in (student, teacher)]
    theirs = F.kl_div(*((each / temperature).log_softmax(-1)[0] for each in flat), reduction="batchmean", log_target=True)
    agree(ours.distillation_loss(*flat, everything, "forward", temperature), temperature**2 * theirs)


def test_jsd_is_the_generalized_one_of_trl(ours):
    """TRL's GKDTrainer with beta = 0.5: its mixture is a logsumexp of both log-probabilities plus their logarithmic weights."""
    student, teacher = drawn(4, B, T, V), drawn(5, B, T, V)
    s, t = student.log_softmax(-1), teacher.log_softmax(-1)
    beta = torch.tensor(0.5, dtype=double)
    mixture = torch.logsumexp(torch.stack([s + torch.log(1 - beta), t + torch.log(beta)]), dim=0)
    each = beta * F.kl_div(mixture, t, reduction="none", log_target=True) + (1 - beta) * F.kl_div(mixture, s, reduction="none", log_target=True)
    agree(ours.distillation_loss(student, teacher, MASK, "jsd"), each[MASK].sum() / MASK.sum())


def test_a_vote_is_the_mode(ours):
    for seed in range(50):
        answers = torch.randint(0, 4, (9,), generator=torch.Generator().manual_seed(seed)).tolist()
        assert ours.majority_vote(answers) == mode(answers) == Counter(answers).most_common(1)[0][0]


def test_the_chance_of_a_vote_between_two_answers_is_binomial(ours):
    for right, n in ((0.3, 9), (0.55, 25), (0.5, 7)):
        wins = Binomial(n, torch.tensor(right, dtype=double)).log_prob(torch.arange(n // 2 + 1, n + 1, dtype=double)).exp().sum()
        assert ours.expected_vote([right, 1 - right], n) == pytest.approx(float(wins), abs=1e-12)


def test_the_chance_of_a_vote_is_a_sum_over_a_multinomial(ours):
    """None is the last kind; where t answers have the most votes, the right one wins in one of t cases."""
    shares, n = torch.tensor([0.35, 0.3, 0.2, 0.15], dtype=double), 7
    counts = torch.cartesian_prod(*[torch.arange(n + 1)] * len(shares))
    counts = counts[counts.sum(1) == n].to(double)
    chances = torch.stack([Multinomial(n, shares).log_prob(row).exp() for row in counts])
    votes = counts[:, :-1]
    leads = (votes[:, 0] == votes.amax(1)) & (votes[:, 0] > 0)
    wins = leads.to(double) / (votes == votes.amax(1, keepdim=True)).sum(1)
    assert ours.expected_vote(shares[:-1].tolist(), n) == pytest.approx(float(chances @ wins), abs=1e-12)


def test_thinking_and_answer_are_the_text_that_transformers_generates(ours):
    """With the end token where it is written, one greedy text by transformers: prompt, thinking, end token, answer."""
    torch.manual_seed(3)
    config = LlamaConfig(vocab_size=17, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=64)
    theirs = LlamaForCausalLM(config).eval()

    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = theirs

        def forward(self, ids):
            return self.model(input_ids=ids).logits

    def text(ids, new):
        options = {"max_new_tokens": new, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
        return theirs.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long), **options)[0, len(ids) :].tolist()

    prompt = [3, 1, 4]
    thinking = text(prompt, 5)
    end = next(token for token in range(17) if token not in thinking)
    answer = text([*prompt, *thinking, end], 6)
    assert ours.think(Logits(), prompt, end, 0, 5, [], max_answer_tokens=6) == (thinking, answer)
