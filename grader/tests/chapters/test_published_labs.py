"""The measurements of lesson 16's labs and of lesson 20's beginning: what they compute is what they say, on a small model; and the lesson's tables, where the weights are installed."""

from __future__ import annotations

import importlib.util
import re

import pytest
import torch
from grader.chapters.ch16_published_model import labs
from grader.chapters.ch16_published_model.published.opening import PACKAGE, attention_weights
from grader.chapters.ch20_modern_block import sinks
from grader.course.syllabus import EXERCISES
from lab_tables import missing_rows, numbers_in, printed

TABLES = {"capital": "lens", "repeats": "induction", "drink": "patching", "bits": "bits"}
needs_weights = pytest.mark.skipif(importlib.util.find_spec(PACKAGE) is None, reason="the weights of SmolLM2 are not installed")


def test_attention_weights_are_those_that_the_layer_uses(published):
    parts, attention = published.own.parts, published.model.blocks[1].attn
    x = torch.randn(2, 7, published.sizes.d_model, generator=torch.Generator().manual_seed(0))
    weights = attention_weights(published, attention, x)
    v = parts.split_heads(attention.W_v(x), published.sizes.n_kv_heads).repeat_interleave(2, dim=1)
    assert weights.shape == (2, 4, 7, 7) and torch.allclose(weights.sum(-1), torch.ones(()))
    assert torch.allclose(attention.W_out(parts.merge_heads(weights @ v)), attention(x), atol=1e-5)


def test_a_head_is_removed_for_one_loss_only(published):
    ids = torch.randint(published.sizes.vocab_size, (2, 32), generator=torch.Generator().manual_seed(0)).repeat(1, 2)
    whole, without, again = (labs.loss_without_heads(published, heads, ids, lambda: None) for heads in ([], [(1, 2)], []))
    assert whole == again != without
    attention = published.model.blocks[1].attn.W_out
    hook = attention.register_forward_pre_hook(lambda layer, inputs: (inputs[0].clone().index_fill(-1, torch.arange(32, 48), 0.0),))
    directly = labs.loss_without_heads(published, [], ids, lambda: None)
    hook.remove()
    assert directly == pytest.approx(without, abs=1e-5)


def test_rounded_blocks_have_few_values_near_the_weights_and_rounding_twice_changes_nothing():
    weight = torch.randn(4, 64, generator=torch.Generator().manual_seed(0))
    for bits in (2, 3, 4):
        once = labs.rounded_blocks(weight, bits)
        steps = (weight.view(-1, 32).amax(1) - weight.view(-1, 32).amin(1)) / (2**bits - 1)
        assert max(len(block.unique()) for block in once.view(-1, 32)) == 2**bits
        assert ((once - weight).view(-1, 32).abs().amax(1) <= steps * 0.51 + 2e-3).all()
        assert torch.allclose(labs.rounded_blocks(once, bits), once, atol=2e-3)
    assert torch.equal(labs.rounded_blocks(torch.zeros(2, 32), 4), torch.zeros(2, 32))


def test_the_weight_on_the_first_token_is_a_mean_over_heads_and_later_queries(published):
    ids = torch.randint(published.sizes.vocab_size, (1, 6), generator=torch.Generator().manual_seed(0))
    x, shares = published.model.token_emb(ids), sinks.weight_on_first_token(published, ids, lambda: None)
    first = attention_weights(published, published.model.blocks[0].attn, published.model.blocks[0].ln1(x))[0, :, 1:, 0]  # (H, 5)
    assert len(shares) == published.sizes.n_layers and shares[0] == pytest.approx(sum(first.flatten().tolist()) / first.numel())
    attention = published.model.blocks[0].attn
    kept = attention.W_q.weight.detach().clone()
    attention.W_q.weight.data.zero_()  # equal weights
    assert sinks.weight_on_first_token(published, ids, lambda: None)[0] == pytest.approx((1 / 2 + 1 / 3 + 1 / 4 + 1 / 5 + 1 / 6) / 5)
    attention.W_q.weight.data.copy_(kept)


@needs_weights
@pytest.mark.thorough
def test_lesson_20_begins_with_the_shares_that_its_command_prints():
    """In whole percent, which other machines may round differently."""
    out = " ".join(printed("published_sinks").split())
    found = re.search(r"whole text: (\d+)% to (\d+)%\. .*tokens: (\d+)% to (\d+)%\. With equal weights it would be (\d+)%\.", out)
    low, high, low_without, high_without, equal = map(int, found.groups())
    lesson = " ".join((EXERCISES / "ch20_modern_block.md").read_text(encoding="utf-8").split())
    said = re.search(r"between (\d+) % and (\d+) % of all weight .* would give it (\d+) %\. .* one gets (\d+) % to (\d+) % \(", lesson)
    measured = (low, high, equal, low_without, high_without)
    assert said and all(abs(int(one) - other) <= 1 for one, other in zip(said.groups(), measured, strict=True)), measured


@needs_weights
@pytest.mark.thorough
@pytest.mark.parametrize("lab", TABLES)
def test_the_tables_of_a_lab_are_what_its_command_prints(lab):
    """Numbers may differ by 2 % or in their last digit, because other machines round differently."""

    def close(said: str, measured: str) -> bool:
        if (numbers := numbers_in(said, measured)) is None:
            return False
        one, other = numbers
        return "." in said and abs(one - other) <= max(0.02 * abs(other), 1.5 * 10.0 ** -len(said.strip("%").partition(".")[2]))

    assert missing_rows("ch16", lab, f"published_{TABLES[lab]}", close) == []
