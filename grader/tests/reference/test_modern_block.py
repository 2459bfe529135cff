"""Chapter 20's reference against transformers and torch, on random weights."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from agreement import agree, normal, randomised, same
from torch import Tensor, nn
from transformers import Gemma2Config, Gemma2ForCausalLM, LlamaConfig, get_wsd_schedule
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Attention, DeepseekV3Config
from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward as attention_of_gpt_oss
from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention, Qwen3Config
from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextAttention, Qwen3NextConfig

B, H, T, D, V = 2, 3, 5, 24, 11
D_HEAD = D // H
HALVES = torch.arange(D_HEAD).view(2, -1).T.flatten()  # theirs rotate feature i with i + d_head / 2, ours with its neighbour
ROUNDING = 1e-5  # their norms and softmax compute in float32
SIZES = dict(hidden_size=D, num_attention_heads=H, num_key_value_heads=H, attn_implementation="eager", num_hidden_layers=1)


def turns(ours, width: int) -> tuple[Tensor, Tensor]:
    """Cosine and sine as transformers passes them, (1, T, width), from our angles."""
    angles = ours.rope_angles(torch.arange(T), width).repeat(1, 2)[None].double()
    return angles.cos(), angles.sin()


def hidden(ours) -> Tensor:
    """The causal mask as they add it to the scores."""
    return torch.zeros(T, T, dtype=torch.float64).masked_fill(~ours.causal_mask(T), -1e30)[None, None]


def neighbours(weight: Tensor) -> Tensor:
    """Rows of queries or keys in our order."""
    return weight.unflatten(0, (-1, D_HEAD))[:, HALVES].flatten(0, 1)


@torch.no_grad()
def test_qk_norm_is_that_of_qwen3(ours):
    config = Qwen3Config(**SIZES, head_dim=D_HEAD, rms_norm_eps=ours.RMSNorm(2).eps)
    theirs, mine, x = randomised(Qwen3Attention(config, 0)), ours.QKNormAttention(D, H, "rope").double(), normal(B, T, D)
    for name in ("q", "k"):
        getattr(mine, f"W_{name}").weight.copy_(neighbours(getattr(theirs, f"{name}_proj").weight))
        getattr(mine, f"{name}_norm").weight.copy_(getattr(theirs, f"{name}_norm").weight[HALVES])
    mine.W_v.weight.copy_(theirs.v_proj.weight)
    mine.W_out.weight.copy_(theirs.o_proj.weight)
    same(mine(x), theirs(x, turns(ours, D_HEAD), hidden(ours))[0], ROUNDING)


@torch.no_grad()
def test_latent_attention_is_that_of_deepseek_v3_in_both_forms(ours):
    d_latent, d_rope = 7, 4
    widths = dict(q_lora_rank=None, kv_lora_rank=d_latent, qk_rope_head_dim=d_rope, qk_nope_head_dim=D_HEAD, v_head_dim=D_HEAD)
    theirs = randomised(DeepseekV3Attention(DeepseekV3Config(**SIZES, **widths), 0))
    mine, x = randomised(ours.LatentAttention(D, H, d_latent, d_rope)), normal(B, T, D)
    theirs.q_proj.weight.copy_(mine.W_q.weight)
    theirs.kv_a_proj_with_mqa.weight.copy_(torch.cat([mine.W_down.weight, mine.W_rope.weight]))
    theirs.kv_a_layernorm.weight.copy_(mine.norm.weight)
    both = [layer.weight.unflatten(0, (H, D_HEAD)) for layer in (mine.W_up_k, mine.W_up_v)]
    theirs.kv_b_proj.weight.copy_(torch.cat(both, dim=1).flatten(0, 1))
    theirs.o_proj.weight.copy_(mine.W_out.weight)
    expected = theirs(x, turns(ours, d_rope), hidden(ours))[0]
    same(mine(x), expected, ROUNDING)
    cache = ours.KVCache()
    same(torch.cat([mine.cached(part, cache) for part in x.split([3, 1, 1], dim=1)], dim=1), expected, ROUNDING)


def test_attention_with_a_sink_is_that_of_gpt_oss(ours):
    q, k, v, sink = normal(B, H, T, 4, scale=2), normal(B, H, T, 4), normal(B, H, T, 4), normal(H)
    module = SimpleNamespace(num_key_value_groups=1, sinks=sink, training=False)
    expected, expected_weights = attention_of_gpt_oss(module, q, k, v, hidden(ours), scaling=0.5)
    output, weights = ours.attention_with_sink(q, k, v, sink, ours.causal_mask(T))
    agree(output, expected.transpose(1, 2), q, k, v, sink)
    same(weights, expected_weights)


@torch.no_grad()
def test_the_gate_is_that_of_qwen3_next(ours):
    theirs, x = randomised(Qwen3NextAttention(Qwen3NextConfig(**SIZES, head_dim=D_HEAD), 0)), normal(B, T, D)
    straight = torch.ones(1, T, D_HEAD, dtype=torch.float64), torch.zeros(1, T, D_HEAD, dtype=torch.float64)
    q, gate = theirs.q_proj(x).view(B, T, H, 2 * D_HEAD).chunk(2, dim=-1)
    k, v = (layer(x).view(B, T, H, D_HEAD) for layer in (theirs.k_proj, theirs.v_proj))
    heads = [each.transpose(1, 2) for each in (theirs.q_norm(q), theirs.k_norm(k), v, gate)]
    mine = theirs.o_proj(ours.merge_heads(ours.gated_attention(*heads, ours.causal_mask(T))))
    same(mine, theirs(x, straight, hidden(ours))[0], ROUNDING)


@torch.no_grad()
def test_the_soft_cap_is_that_of_gemma_2(ours):
    config = Gemma2Config(
        **SIZES, vocab_size=V, intermediate_size=16, head_dim=D_HEAD, final_logit_softcapping=3.0, pad_token_id=0
    )  # fmt: skip
    theirs, ids = randomised(Gemma2ForCausalLM(config)).eval(), torch.randint(V, (B, T))
    capped = theirs(ids).logits
    theirs.config.final_logit_softcapping = None
    plain = theirs(ids).logits
    assert plain.abs().max() > 3
    same(ours.soft_cap(plain, 3.0), capped)


@pytest.mark.parametrize(("d_head", "factor", "length"), [(64, 4.0, 4096), (16, 8.0, 300), (32, 1.0, 2048)])
def test_yarn_is_that_of_transformers(ours, d_head, factor, length):
    """Without rounding the two limits to whole pairs; theirs are float32, and their limits are within the pairs."""
    rope = dict(rope_type="yarn", rope_theta=10000.0, factor=factor, original_max_position_embeddings=length, truncate=False)
    config = LlamaConfig(hidden_size=2 * d_head, num_attention_heads=2, rope_parameters=rope, max_position_embeddings=int(factor * length))
    frequencies, scale = ROPE_INIT_FUNCTIONS["yarn"](config, "cpu")
    angles, mine = ours.yarn_angles(torch.arange(9), d_head, factor, length)
    same(angles.double(), torch.arange(9)[:, None] * frequencies.double(), 1e-6)
    assert mine == pytest.approx(scale)


@pytest.mark.parametrize("shape", [(6, 9), (12, 5)])
def test_muon_is_torchs_as_far_as_bfloat16_goes(ours, shape):
    start, choices = torch.randn(shape), dict(lr=0.1, momentum=0.9, weight_decay=0.3)
    mine, theirs = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    optimizers = ours.Muon([mine], **choices), torch.optim.Muon([theirs], **choices)
    for _ in range(3):
        before = mine.detach().clone(), theirs.detach().clone()
        mine.grad = torch.randn(shape)
        theirs.grad = mine.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
        moved, expected = (new.detach() - 0.97 * old for new, old in zip((mine, theirs), before))
        assert F.cosine_similarity(moved.flatten(), expected.flatten(), dim=0) > 0.99
        assert float(moved.norm()) == pytest.approx(float(expected.norm()), rel=0.05)


def test_the_loss_of_several_tokens_is_torchs_mean_cross_entropy_of_each_head(ours):
    logits, targets = normal(3, B, T, V), torch.randint(V, (B, T))
    targets[0, :2] = targets[1, -1] = -100
    losses = [F.cross_entropy(own[:, : T - k].transpose(1, 2), targets[:, k:]) for k, own in enumerate(logits)]
    agree(ours.multi_token_loss(logits, targets), sum(losses) / 3, logits)


@pytest.mark.parametrize("floor", [0.0, 0.2])
def test_the_schedule_is_the_linear_one_of_transformers(ours, floor):
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=2.0)
    schedule = get_wsd_schedule(optimizer, 4, 6, num_training_steps=20, decay_type="linear", min_lr_ratio=floor)
    for step in range(25):
        if step < 4:  # theirs rises from the floor, ours from 0
            assert ours.schedule_wsd(step, 4, 6, 20, 2.0, 2.0 * floor) == step / 2
        else:
            assert ours.schedule_wsd(step, 4, 6, 20, 2.0, 2.0 * floor) == pytest.approx(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
