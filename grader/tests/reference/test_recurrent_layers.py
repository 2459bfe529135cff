"""Chapter 22's delta rule, convolution, scan and layer against transformers and torch, on random weights."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from agreement import agree, normal, randomised, same
from torch import Tensor

QWEN = "transformers.models.qwen3_next.modeling_qwen3_next"
MAMBA = "transformers.models.mamba.modeling_mamba"
B, H, D_K, D_V = 2, 3, 4, 6
FLOAT32 = 2e-5  # theirs compute in float32


def published(module: str, name: str) -> Any:
    """A part of transformers, if the installed version has it."""
    found: ModuleType = pytest.importorskip(module)
    if not hasattr(found, name):
        pytest.skip(f"this version of transformers has no {name}")
    return getattr(found, name)


def delta_arguments(T: int) -> list[Tensor]:
    """Queries, keys, values, beta, log_decay and a state of our delta rule; two of three queries and keys are long."""
    q, k, v = normal(B, H, T, D_K), normal(B, H, T, D_K, scale=0.6), normal(B, H, T, D_V)
    return [q, k, v, torch.rand(B, H, T).double() * 1.5, -normal(B, H, T).abs().detach(), normal(B, H, D_K, D_V)]


@torch.no_grad()
@pytest.mark.parametrize(("name", "T"), [("torch_recurrent_gated_delta_rule", 11), ("torch_chunk_gated_delta_rule", 11), ("torch_chunk_gated_delta_rule", 150)])
def test_the_delta_rule_is_that_of_qwen3_next_in_both_forms(ours, name, T):
    """Theirs divide queries by sqrt(d)."""
    q, k, v, beta, log_decay, state = delta_arguments(T)
    theirs = published(QWEN, name)
    inputs = [value.transpose(1, 2).float() for value in (q * D_K**0.5, k, v, log_decay, beta)]
    for begun in (None, state):
        given = None if begun is None else begun.float()
        expected, last = theirs(*inputs, initial_state=given, output_final_state=True)
        pairs = [ours.delta_rule(q, k, v, beta, log_decay, begun)]
        pairs += [ours.delta_rule_chunked(q, k, v, beta, chunk, log_decay, begun) for chunk in (7, 64)]
        for output, S in pairs:
            same(output.float(), expected.transpose(1, 2), FLOAT32)
            same(S.float(), last, FLOAT32)


@pytest.mark.parametrize(("T", "width"), [(9, 4), (3, 5), (6, 1)])
def test_the_short_convolution_is_torchs_with_a_group_for_each_feature(ours, T, width):
    features = 5
    x, weight, state = normal(B, T, features), normal(features, width), normal(B, width - 1, features)
    for before in (None, state):
        padded = F.pad(x, (0, 0, width - 1, 0)) if before is None else torch.cat([before, x], dim=1)
        expected = F.conv1d(padded.mT, weight[:, None], groups=features).mT
        output, last = ours.short_convolution(x, weight, before)
        agree(output, expected, x, weight)
        same(last, padded[:, T:])


@torch.no_grad()
def test_the_short_convolution_is_that_of_qwen3_next(ours):
    x, weight = normal(B, 8, 5).float(), normal(5, 4).float()
    whole, step = published(QWEN, "causal_conv1d_fn"), published(QWEN, "causal_conv1d_update")
    output, state = ours.short_convolution(x, weight)
    same(output, whole(x.mT, weight, None).mT, FLOAT32)
    theirs, one = state.mT.clone(), normal(B, 1, 5).float()
    expected = step(one.mT, theirs, weight, None).mT
    output, state = ours.short_convolution(one, weight, state)
    same(output, expected, FLOAT32)
    same(state.mT, theirs)


@torch.no_grad()
def test_the_selective_scan_is_that_of_mamba(ours):
    T, features, numbers = 12, 5, 3
    x, dt = normal(B, T, features).float(), normal(B, T, features).exp().float()
    A, D = -normal(features, numbers).exp().float(), normal(features).float()
    write, read, state = normal(B, T, numbers).float(), normal(B, T, numbers).float(), normal(B, features, numbers).float()
    scan, update = published(MAMBA, "mamba_selective_scan"), published(MAMBA, "mamba_selective_state_update")
    expected, last = scan(x.mT, dt.mT, A, write.mT, read.mT, D=D, return_last_state=True)
    y, h = ours.selective_scan(x, dt, A, write, read, D)
    same(y, expected.mT, FLOAT32)
    same(h, last, FLOAT32)
    theirs = state.clone()
    expected = update(theirs, x[:, 0], dt[:, 0], A, write[:, 0], read[:, 0], D)
    y, h = ours.selective_scan(x[:, :1], dt[:, :1], A, write[:, :1], read[:, :1], D, state)
    same(y[:, 0], expected, FLOAT32)
    same(h, theirs, FLOAT32)


@torch.no_grad()
@pytest.mark.parametrize(("heads", "d_head", "width"), [(2, 8, 4), (3, 4, 2)])
def test_the_layer_is_that_of_qwen3_next(ours, heads, d_head, width):
    """Theirs divide queries by sqrt(d_head), which the norm hides except for its eps, and order the projections by heads."""
    d_model, T = heads * d_head, 100
    config = published("transformers", "Qwen3NextConfig")(
        hidden_size=d_model, num_hidden_layers=1, layer_types=["linear_attention"], linear_conv_kernel_dim=width,
        linear_num_key_heads=heads, linear_num_value_heads=heads, linear_key_head_dim=d_head, linear_value_head_dim=d_head,
    )  # fmt: skip
    theirs = randomised(published(QWEN, "Qwen3NextGatedDeltaNet")(config, 0), dtype=torch.float32)
    mine = ours.GatedDeltaNet(d_model, heads, width)
    parts = [part.flatten(0, 1) for part in theirs.in_proj_qkvz.weight.unflatten(0, (heads, 4, d_head)).unbind(1)]
    mine.W_qkv.weight.copy_(torch.cat(parts[:3]))
    mine.W_gate.weight.copy_(parts[3])
    mine.W_beta.weight.copy_(theirs.in_proj_ba.weight[0::2])
    mine.W_decay.weight.copy_(theirs.in_proj_ba.weight[1::2])
    mine.W_out.weight.copy_(theirs.out_proj.weight)
    mine.conv.copy_(theirs.conv1d.weight[:, 0])
    mine.norm.weight.copy_(theirs.norm.weight)
    mine.A_log.copy_(theirs.A_log)
    mine.dt_bias.copy_(theirs.dt_bias)
    mine.norm.eps = config.rms_norm_eps * d_head
    x = normal(B, T, d_model).float()
    expected = theirs.eval()(x)
    same(mine(x), expected, FLOAT32)
    state, outputs = mine.new_state(B), []
    for piece in x.split([70, 1, 29], dim=1):
        output, state = mine.step(piece, state)
        outputs.append(output)
    same(torch.cat(outputs, dim=1), expected, FLOAT32)
