"""Chapter 24's scores against a published model's own loss, published metrics, and enumeration."""

from __future__ import annotations

import itertools
import math
import random
from types import SimpleNamespace

import numpy
import pytest
import torch
from torch.nn import functional as F
from transformers import LlamaConfig, LlamaForCausalLM

QUESTION, CHOICES = "so a cat", [" on a mat", "s", " sat on the mat."]


class Logits(torch.nn.Module):
    """A small published model that returns logits."""

    def __init__(self, vocab_size):
        super().__init__()
        sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
        self.model = LlamaForCausalLM(LlamaConfig(vocab_size=vocab_size, max_position_embeddings=64, **sizes))
        for parameter in self.parameters():
            torch.nn.init.normal_(parameter, std=0.5)

    def forward(self, ids):
        return self.model(input_ids=ids).logits


def test_a_score_is_the_published_models_loss_of_the_choice(ours):
    """The label -100 hides the question's tokens from the model's own mean loss; each text is read alone, without padding."""
    tokenizer = ours.BPETokenizer(ours.train_bpe("a cat sat on the mat. cats on a mat. so a cat sat", 280))
    model, asked, expected = Logits(tokenizer.vocab_size), tokenizer.encode(QUESTION), []
    for choice in CHOICES:
        ids = torch.tensor(tokenizer.encode(QUESTION + choice))
        start = min([t for t, (one, other) in enumerate(zip(asked, ids.tolist())) if one != other], default=len(asked))
        labels = ids.clone()
        labels[:start] = -100
        loss = model.model(input_ids=ids[None], labels=labels[None]).loss
        expected.append({"token": -loss, "sum": -loss * (len(ids) - start), "byte": -loss * (len(ids) - start) / len(choice.encode())})
    for kind in ("sum", "token", "byte"):
        mine = torch.tensor(ours.score_choices(model, tokenizer, QUESTION, CHOICES, kind))
        torch.testing.assert_close(mine, torch.stack([each[kind].detach() for each in expected]), rtol=1e-4, atol=1e-5)


def test_the_kinds_are_the_accuracies_of_a_published_harness(ours):
    """EleutherAI's harness: acc takes the largest sum of log-likelihoods, and acc_norm divides by the length of the choice in bytes."""
    generator = torch.Generator().manual_seed(2)
    for _ in range(50):
        rows = [torch.randn(int(torch.randint(1, 6, (), generator=generator)), generator=generator, dtype=torch.float64).abs().neg() for _ in range(4)]
        lengths = torch.randint(1, 30, (4,), generator=generator)
        sums = numpy.array([row.sum().item() for row in rows])
        for kind, theirs in (("sum", sums), ("byte", sums / lengths.numpy())):
            mine = [ours.choice_score(row.tolist(), int(n), kind) for row, n in zip(rows, lengths)]
            assert mine == pytest.approx(theirs.tolist(), rel=1e-12)
            assert numpy.argmax(mine) == numpy.argmax(theirs)


def squad_texts():
    drawn, words = random.Random(5), ["The", "a", "an", "cat", "Cat.", "U.S.", "it's", "and", "42", "(the)", "t-h-e", "sat\n", "café"]
    return [" ".join(drawn.choices(words, k=drawn.randint(0, 6))) for _ in range(200)]


def test_answers_are_compared_as_in_squad(ours):
    """The functions of the official script, as older versions of transformers have them."""
    squad = pytest.importorskip("transformers.data.metrics.squad_metrics")
    texts = squad_texts()
    for text, answer in zip(texts, texts[1:]):
        assert ours.normalise_answer(text) == squad.normalize_answer(text)
        assert ours.exact_match(text, [answer]) == squad.compute_exact(answer, text)
        assert ours.token_f1(text, [answer]) == pytest.approx(squad.compute_f1(answer, text), rel=1e-12)


def test_f1_is_the_dice_coefficient_of_two_multisets_of_words(ours):
    """2 · |A ∩ B| / (|A| + |B|), where the intersection is found by trying all ways to give each word a partner."""

    def most_partners(one, other):
        if not one:
            return 0
        without = most_partners(one[1:], other)
        with_partner = [1 + most_partners(one[1:], other[:i] + other[i + 1 :]) for i, word in enumerate(other) if word == one[0]]
        return max([without, *with_partner])

    drawn = random.Random(7)
    for _ in range(100):
        one, other = (drawn.choices("xyz", k=drawn.randint(1, 5)) for _ in range(2))
        assert ours.token_f1(" ".join(one), [" ".join(other)]) == pytest.approx(2 * most_partners(one, other) / (len(one) + len(other)), rel=1e-12)


def test_pass_at_k_is_the_estimator_that_was_published_with_humaneval(ours):
    """1 if n - c < k, else 1 - the product of 1 - k / i over i from n - c + 1 to n."""
    for n, k in itertools.product((1, 2, 5, 20, 200, 10_000), (1, 2, 5, 20, 100, 4_000)):
        for correct in {0, 1, 2, n // 3, n - 1, n} & set(range(n + 1)) if k <= n else ():
            theirs = 1.0 if n - correct < k else 1.0 - numpy.prod(1.0 - k / numpy.arange(n - correct + 1, n + 1))
            assert ours.pass_at_k(n, correct, k) == pytest.approx(float(theirs), rel=1e-9, abs=1e-11)


def test_kappa_is_that_of_scikit_learn(ours):
    metrics = pytest.importorskip("sklearn.metrics")
    drawn = random.Random(3)
    for _ in range(50):
        a, b = (drawn.choices("xxyz", k=12) for _ in range(2))
        assert ours.agreement(a, b) == pytest.approx(metrics.cohen_kappa_score(a, b), rel=1e-12, abs=1e-12)


def test_kappa_is_agreement_beyond_the_mean_of_all_orders(ours):
    """The agreement expected by chance is the mean over every order of the second judge's labels."""
    drawn = random.Random(4)
    for _ in range(20):
        a, b = (drawn.choices("xxyz", k=5) for _ in range(2))
        orders = list(itertools.permutations(b))
        expected = math.fsum(sum(x == y for x, y in zip(a, order)) for order in orders) / (len(orders) * len(a))
        seen = sum(x == y for x, y in zip(a, b)) / len(a)
        assert ours.agreement(a, b) == pytest.approx(1.0 if expected == 1 else (seen - expected) / (1 - expected), rel=1e-9, abs=1e-12)


def test_contamination_is_an_overlap_of_torchs_windows(ours):
    """Words as numbers, cut by Tensor.unfold, and compared window by window."""
    drawn = random.Random(6)
    for _ in range(100):
        n, corpus = drawn.randint(1, 4), drawn.choices("bcdefgh", k=12)
        example = drawn.choices("bcdefgh", k=drawn.randint(4, 8))
        rows, mine = (torch.tensor([ord(word) for word in text]).unfold(0, n, 1) for text in (corpus, example))
        theirs = bool((rows[:, None] == mine[None]).all(-1).any())
        assert ours.contaminated(" ".join(example), ours.shingles(" ".join(corpus), n), n) == theirs


def test_uniform_models_have_the_entropy_of_the_vocabulary(ours):
    """A model without knowledge gives each token -log V; 64 tokens in float32 still sum to it."""
    model = torch.nn.Embedding(256, 256)
    torch.nn.init.zeros_(model.weight)
    tokenizer, choice = SimpleNamespace(encode=lambda text: list(text.encode())), "x" * 64
    assert ours.score_choices(model, tokenizer, "a", [choice], "sum") == pytest.approx([-64 * math.log(256)], rel=1e-6)
    assert F.cross_entropy(torch.zeros(64, 256), torch.zeros(64, dtype=torch.long), reduction="sum").item() == pytest.approx(64 * math.log(256), rel=1e-6)
