"""The measurements of lesson 16's labs: what they compute is what they say, on a small model; and the lesson's tables, where the weights are installed."""

from __future__ import annotations

import importlib.util

import pytest
import torch
from grader.models.published import labs
from grader.models.published.inside import attention_weights
from grader.models.published.opening import PACKAGE
from lab_tables import missing_rows, numbers_in

TABLES = {"capital": "lens", "repeats": "induction", "drink": "patching", "bits": "bits"}


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


@pytest.mark.thorough
@pytest.mark.skipif(importlib.util.find_spec(PACKAGE) is None, reason="the weights of SmolLM2 are not installed")
@pytest.mark.parametrize("lab", TABLES)
def test_the_tables_of_a_lab_are_what_its_command_prints(lab):
    """Numbers may differ by 2 % or in their last digit, because other machines round differently."""

    def close(said: str, measured: str) -> bool:
        if (numbers := numbers_in(said, measured)) is None:
            return False
        one, other = numbers
        return "." in said and abs(one - other) <= max(0.02 * abs(other), 1.5 * 10.0 ** -len(said.strip("%").partition(".")[2]))

    assert missing_rows("ch16", lab, f"published_{TABLES[lab]}", close) == []
